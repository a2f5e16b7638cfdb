! Initialise, sleep 200 ms, finalise; with the mpif.h-style names.
program wall
  implicit none
  include 'mpif.h'
  integer :: error, provided
  integer :: before, now, rate
  call mpi_init_thread(MPI_THREAD_SINGLE, provided, error)
  call system_clock(before, rate)
  do
     call system_clock(now)
     if (real(now - before) / real(rate) > 0.2) exit
  end do
  call mpi_finalize(error)
end program wall
