! The same through mpi_f08, without the optional error argument.
program wall
  use mpi_f08
  implicit none
  call mpi_init()
  call mpi_finalize()
end program wall
