//! Constants of the kernel's interface: their names by number, and their numbers by name.

macro_rules! table {
    ($(#[$doc:meta])* $name:ident: $($number:ident)*) => {
        $(#[$doc])*
        #[allow(clippy::cast_possible_wrap, reason = "the C library has some as unsigned")]
        pub(crate) const $name: &[(&str, i32)] = &[$((stringify!($number), libc::$number as i32),)*];
    };
}

table! {
    /// Errors.
    ERRORS:
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST
    EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM
    ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP ENOMSG EIDRM ENOSTR ENODATA ETIME ENOSR ENONET
    ENOPKG EREMOTE ENOLINK ECOMM EPROTO EMULTIHOP EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG ELIBACC ELIBBAD
    EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT
    ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET
    ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN
    EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL EISNAM EREMOTEIO EDQUOT ENOMEDIUM
    EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD ENOTRECOVERABLE ERFKILL
    EHWPOISON
}

table! {
    /// Flags of `open`. Those that contain others come first.
    OPEN_FLAGS:
    O_TMPFILE O_SYNC O_RDWR O_WRONLY O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_DSYNC O_ASYNC
    O_DIRECT O_DIRECTORY O_NOFOLLOW O_NOATIME O_CLOEXEC O_PATH
}

table! {
    /// Flags of calls that take a directory and a name.
    AT_FLAGS:
    AT_SYMLINK_NOFOLLOW AT_SYMLINK_FOLLOW AT_REMOVEDIR AT_EACCESS AT_NO_AUTOMOUNT AT_EMPTY_PATH
    AT_STATX_FORCE_SYNC AT_STATX_DONT_SYNC
}

table! {
    /// From where `lseek` counts.
    WHENCE: SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE
}

table! {
    /// What `fcntl` does.
    FCNTL:
    F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN F_DUPFD_CLOEXEC
    F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_SETLEASE F_GETLEASE
    F_NOTIFY
}

table! {
    /// What `access` asks for.
    ACCESS: R_OK W_OK X_OK
}

table! {
    /// What `flock` does.
    FLOCK: LOCK_SH LOCK_EX LOCK_NB LOCK_UN
}

table! {
    /// What a lock is.
    LOCK: F_RDLCK F_WRLCK F_UNLCK
}

table! {
    /// Sorts of files.
    SORTS: S_IFSOCK S_IFLNK S_IFREG S_IFBLK S_IFDIR S_IFCHR S_IFIFO
}

table! {
    /// The advice of `posix_fadvise`.
    ADVICE:
    POSIX_FADV_NORMAL POSIX_FADV_RANDOM POSIX_FADV_SEQUENTIAL POSIX_FADV_WILLNEED POSIX_FADV_DONTNEED
    POSIX_FADV_NOREUSE
}

table! {
    /// What `fallocate` does.
    FALLOCATE:
    FALLOC_FL_KEEP_SIZE FALLOC_FL_PUNCH_HOLE FALLOC_FL_COLLAPSE_RANGE FALLOC_FL_ZERO_RANGE
    FALLOC_FL_INSERT_RANGE FALLOC_FL_UNSHARE_RANGE
}

table! {
    /// Flags of reads and writes.
    TRANSFER: RWF_HIPRI RWF_DSYNC RWF_SYNC RWF_NOWAIT RWF_APPEND
}

/// Flags of `renameat2`; the C library has them as unsigned.
pub(crate) const RENAME: &[(&str, i32)] =
    &[("RENAME_NOREPLACE", 1), ("RENAME_EXCHANGE", 2), ("RENAME_WHITEOUT", 4)];

/// Flags of `mmap` and `close_range` that matter.
pub(crate) const OTHER: &[(&str, i32)] = &[
    ("PROT_WRITE", libc::PROT_WRITE),
    ("MAP_SHARED", libc::MAP_SHARED),
    ("CLOSE_RANGE_CLOEXEC", 4),
    ("FD_CLOEXEC", libc::FD_CLOEXEC),
];

/// The name of a number in a table.
pub(crate) fn name(table: &[(&'static str, i32)], number: i32) -> Option<&'static str> {
    table.iter().find(|entry| entry.1 == number).map(|entry| entry.0)
}

/// The number of a name in a table.
pub(crate) fn number(table: &[(&str, i32)], name: &str) -> Option<i32> {
    // Other names of the same errors.
    let name = match name {
        "EWOULDBLOCK" => "EAGAIN",
        "ENOTSUP" => "EOPNOTSUPP",
        "EDEADLOCK" => "EDEADLK",
        name => name,
    };
    table.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}

/// The name of an error, or its number.
pub(crate) fn error(number: i32) -> String {
    name(ERRORS, number).map_or_else(|| number.to_string(), str::to_owned)
}

/// Flags as C programs write them.
pub(crate) fn flags(table: &[(&'static str, i32)], mut flags: i32, none: &str) -> String {
    let mut words = Vec::new();
    for (name, bits) in table {
        if *bits != 0 && flags & bits == *bits {
            words.push((*name).to_owned());
            flags &= !bits;
        }
    }
    if flags != 0 {
        words.push(format!("{flags:#x}"));
    }
    if words.is_empty() { none.to_owned() } else { words.join("|") }
}

/// Flags of `open`, with how it may be used first.
pub(crate) fn open_flags(bits: i32) -> String {
    // On 64-bit systems files are always large.
    let text = flags(OPEN_FLAGS, bits & !0o100_000, "");
    match (bits & libc::O_ACCMODE, text.as_str()) {
        (libc::O_RDONLY, "") => "O_RDONLY".to_owned(),
        (libc::O_RDONLY, _) => format!("O_RDONLY|{text}"),
        _ => text,
    }
}
