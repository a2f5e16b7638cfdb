! Initialise, finalise; with the mpif.h-style names.
program wall
  implicit none
  include 'mpif.h'
  integer :: error, provided
  call mpi_init_thread(MPI_THREAD_SINGLE, provided, error)
  call mpi_finalize(error)
end program wall
