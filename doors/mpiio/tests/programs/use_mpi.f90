! Files by Fortran's module: shared pointers, split collectives, hints.
program use_mpi
  use mpi
  implicit none
  integer, parameter :: n = 100
  integer :: file, code, rank, ranks, i, status(MPI_STATUS_SIZE), counted, info
  integer :: failures, all_failures
  double precision :: values(n), back(n)
  integer(kind=MPI_OFFSET_KIND) :: offset
  character(len=1000) :: name
  character(len=MPI_MAX_INFO_VAL) :: value
  logical :: found

  failures = 0
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  call get_command_argument(1, name)
  call MPI_Info_create(info, code)
  call MPI_Info_set(info, 'cb_nodes', '1', code)
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_RDWR, info, file, code)
  if (code /= MPI_SUCCESS) call MPI_Abort(MPI_COMM_WORLD, 1, code)
  call MPI_Info_free(info, code)
  call MPI_File_get_info(file, info, code)
  call MPI_Info_get(info, 'cb_nodes', MPI_MAX_INFO_VAL - 1, value, found, code)
  if (.not. found .or. trim(value) /= '1') failures = failures + 1
  call MPI_Info_free(info, code)
  do i = 1, n
    values(i) = rank + i / 1000d0
  end do
  offset = 0
  call MPI_File_set_view(file, offset, MPI_DOUBLE_PRECISION, MPI_DOUBLE_PRECISION, 'native', MPI_INFO_NULL, code)
  call MPI_File_write_ordered(file, values, n, MPI_DOUBLE_PRECISION, status, code)
  if (code /= MPI_SUCCESS) failures = failures + 1
  offset = rank * n
  call MPI_File_read_at_all_begin(file, offset, back, n, MPI_DOUBLE_PRECISION, code)
  call MPI_File_read_at_all_end(file, back, status, code)
  call MPI_Get_count(status, MPI_DOUBLE_PRECISION, counted, code)
  if (counted /= n .or. any(back /= values)) failures = failures + 1
  call MPI_File_get_position_shared(file, offset, code)
  if (offset /= ranks * n) failures = failures + 1
  call MPI_File_sync(file, code)
  call MPI_File_close(file, code)
  call MPI_Allreduce(failures, all_failures, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, code)
  call MPI_Finalize(code)
  if (all_failures /= 0) stop 1
end program
