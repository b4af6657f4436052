! Files by Fortran's newest interface, with handles that are types.
module handling
  use mpi_f08
  implicit none
  integer :: called = 0
  type(MPI_File) :: called_file
contains
  subroutine on_error(file, code)
    type(MPI_File) :: file
    integer :: code
    called = called + 1
    called_file = file
    if (code == MPI_SUCCESS) called = called + 100
  end subroutine
end module

program use_mpi_f08
  use mpi_f08
  use handling
  implicit none
  integer, parameter :: n = 100
  type(MPI_File) :: file
  type(MPI_Status) :: status
  type(MPI_Request) :: request
  type(MPI_Errhandler) :: handler
  integer :: rank, ranks, i, counted, failures, all_failures, code
  integer :: values(n), back(n)
  integer(kind=MPI_OFFSET_KIND) :: offset
  character(len=1000) :: name

  failures = 0
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call get_command_argument(1, name)
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, code)
  if (code /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 1)
  values = [(rank * 1000 + i, i = 1, n)]
  offset = int(rank, MPI_OFFSET_KIND) * n * 4
  call MPI_File_iwrite_at(file, offset, values, n, MPI_INTEGER, request)
  call MPI_Wait(request, status)
  call MPI_Get_count(status, MPI_INTEGER, counted)
  if (counted /= n) failures = failures + 1
  call MPI_File_read_at_all(file, offset, back, n, MPI_INTEGER, status)
  if (any(back /= values)) failures = failures + 1
  call MPI_File_create_errhandler(on_error, handler)
  call MPI_File_set_errhandler(file, handler)
  offset = -1
  call MPI_File_read_at(file, offset, back, n, MPI_INTEGER, status, code)
  if (code == MPI_SUCCESS .or. called /= 1) failures = failures + 1
  if (called_file%MPI_VAL /= file%MPI_VAL) failures = failures + 1
  call MPI_File_close(file)
  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
  call MPI_Finalize()
  if (all_failures /= 0) stop 1
end program
