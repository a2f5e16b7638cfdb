! Compute, write a file without format, and print a sum: the same work everywhere.
program works
  use mpi
  implicit none
  integer :: error, rank, i
  real(8) :: field(100000), total
  character(len=32) :: name

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  do i = 1, size(field)
    field(i) = sqrt(real(i + rank, 8))
  end do
  call MPI_Allreduce(sum(field), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, error)
  write (name, '(a, i0)') 'fortran-', rank
  open (unit=10, file=name, form='unformatted', status='replace')
  write (10) field
  close (10)
  if (rank == 0) print '(a, es16.8)', 'total ', total
  call MPI_Finalize(error)
end program works
