! The same in Fortran.
subroutine run() bind(c, name="run")
  implicit none
  include 'mpif.h'
  integer :: error
  call mpi_init(error)
  call mpi_finalize(error)
end subroutine run
