! Files by Fortran's oldest interface: what is written comes back, views and error handlers included.
program mpif_h
  implicit none
  include 'mpif.h'
  integer, parameter :: n = 100
  integer :: file, code, rank, ranks, i, status(MPI_STATUS_SIZE), counted, request, vector, class
  integer :: values(n), back(n), failures, all_failures, handler, amode
  integer(kind=MPI_OFFSET_KIND) :: offset, length
  character(len=1000) :: name
  integer :: called, called_file
  common /calls/ called, called_file
  external :: on_error

  failures = 0
  called = 0
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, name)
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR, MPI_INFO_NULL, file, code)
  if (code /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 1, code)
  do i = 1, n
    values(i) = rank * 1000 + i
  end do
  offset = int(rank, MPI_OFFSET_KIND) * n * 4
  call MPI_File_write_at_all(file, offset, values, n, MPI_INTEGER, status, code)
  call MPI_Get_count(status, MPI_INTEGER, counted, code)
  if (counted /= n) failures = failures + 1
  call MPI_File_iread_at(file, offset, back, n, MPI_INTEGER, request, code)
  call MPI_Wait(request, status, code)
  if (any(back /= values)) failures = failures + 1
  call MPI_Type_vector(n, 1, ranks, MPI_INTEGER, vector, code)
  call MPI_Type_commit(vector, code)
  offset = rank * 4
  call MPI_File_set_view(file, offset, MPI_INTEGER, vector, 'native', MPI_INFO_NULL, code)
  call MPI_Type_free(vector, code)
  call MPI_File_write_all(file, values, n, MPI_INTEGER, MPI_STATUS_IGNORE, code)
  if (code /= MPI_SUCCESS) failures = failures + 1
  back = 0
  offset = 0
  call MPI_File_seek(file, offset, MPI_SEEK_SET, code)
  call MPI_File_read_all(file, back, n, MPI_INTEGER, status, code)
  if (any(back /= values)) failures = failures + 1
  call MPI_File_get_size(file, length, code)
  if (length /= int(ranks, MPI_OFFSET_KIND) * n * 4) failures = failures + 1
  call MPI_File_get_amode(file, amode, code)
  if (amode /= MPI_MODE_CREATE + MPI_MODE_RDWR) failures = failures + 1
  ! A handler of Fortran is called with the file's number and the code.
  call MPI_File_create_errhandler(on_error, handler, code)
  call MPI_File_set_errhandler(file, handler, code)
  call MPI_Errhandler_free(handler, code)
  offset = -1
  call MPI_File_write_at(file, offset, values, n, MPI_INTEGER, status, code)
  call MPI_Error_class(code, class, i)
  if (class /= MPI_ERR_ARG .or. called /= 1 .or. called_file /= file) failures = failures + 1
  call MPI_File_close(file, code)
  if (code /= MPI_SUCCESS .or. file /= MPI_FILE_NULL) failures = failures + 1
  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  call MPI_Finalize(code)
  if (all_failures /= 0) stop 1
end program

subroutine on_error(file, code)
  implicit none
  integer :: file, code
  integer :: called, called_file
  common /calls/ called, called_file
  called = called + 1
  called_file = file
  if (code == 0) called = called + 100
end subroutine
