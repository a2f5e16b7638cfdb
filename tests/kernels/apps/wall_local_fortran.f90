! The same in Fortran.
subroutine run() bind(c, name="run")
  implicit none
  include 'mpif.h'
  integer :: error
  integer :: before, now, rate
  call mpi_init(error)
  call system_clock(before, rate)
  do
     call system_clock(now)
     if (real(now - before) / real(rate) > 0.2) exit
  end do
  call mpi_finalize(error)
end subroutine run
