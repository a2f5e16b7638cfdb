! The same through mpi_f08, without the optional error argument.
program wall
  use mpi_f08
  implicit none
  integer :: before, now, rate
  call mpi_init()
  call system_clock(before, rate)
  do
     call system_clock(now)
     if (real(now - before) / real(rate) > 0.2) exit
  end do
  call mpi_finalize()
end program wall
