program heat
  use mpi
  implicit none
  integer :: rank, ranks, code, i, step
  real(8) :: u(0:1001), total, all
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  u = rank
  do step = 1, 200
    call MPI_Sendrecv(u(1000), 1, MPI_REAL8, mod(rank + 1, ranks), 0, u(0), 1, MPI_REAL8, mod(rank + ranks - 1, ranks), 0, &
      MPI_COMM_WORLD, MPI_STATUS_IGNORE, code)
    do i = 1, 1000
      u(i) = 0.5 * (u(i - 1) + u(i + 1))
    end do
  end do
  total = sum(u(1:1000))
  call MPI_Reduce(total, all, 1, MPI_REAL8, MPI_SUM, 0, MPI_COMM_WORLD, code)
  if (rank == 0) print *, 'heat', all
  call MPI_Finalize(code)
end program
