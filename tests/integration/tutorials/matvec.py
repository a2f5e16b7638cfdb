from mpi4py import MPI

comm = MPI.COMM_WORLD
rows = [[(i * j) % 7 for j in range(64)] for i in range(comm.rank, 64, comm.size)]
vector = comm.bcast(list(range(64)) if comm.rank == 0 else None)
parts = comm.gather([sum(a * b for a, b in zip(row, vector, strict=True)) for row in rows])
if comm.rank == 0:
    print("norm", sum(map(sum, parts)))
