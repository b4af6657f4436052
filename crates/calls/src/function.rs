//! [`Function`]: the function of the C library that the program called.

use crate::kind::Kind;

macro_rules! functions {
    ($($code:literal $name:ident $text:literal $kind:ident;)*) => {
        /// The function that the program called. Its forms for large files, for fortified programs
        /// and for other versions of the C library are one function.
        ///
        /// The numbers are part of the format of traces: they are never given to another function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // `name` says it.
        pub enum Function { $($name = $code,)* }

        impl Function {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in C.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it does.
            pub const fn kind(self) -> Kind {
                match self { $(Self::$name => Kind::$kind,)* }
            }

            /// The function of a number.
            pub const fn of_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }
        }
    };
}

functions! {
    1 Open "open" Open;
    2 Openat "openat" Open;
    3 Creat "creat" Open;
    4 Fopen "fopen" Open;
    5 Fdopen "fdopen" Notice;
    6 Freopen "freopen" Open;
    7 Mkstemp "mkstemp" Open;
    10 Close "close" Close;
    11 Fclose "fclose" Close;
    12 CloseRange "close_range" Close;
    20 Read "read" Read;
    21 Pread "pread" Read;
    22 Readv "readv" Read;
    23 Preadv "preadv" Read;
    24 Fread "fread" Read;
    30 Write "write" Write;
    31 Pwrite "pwrite" Write;
    32 Writev "writev" Write;
    33 Pwritev "pwritev" Write;
    34 Fwrite "fwrite" Write;
    40 Lseek "lseek" Seek;
    41 Fseek "fseek" Seek;
    50 Fsync "fsync" Sync;
    51 Fdatasync "fdatasync" Sync;
    52 SyncFileRange "sync_file_range" Notice;
    60 Ftruncate "ftruncate" Truncate;
    61 Truncate "truncate" Notice;
    62 Fallocate "fallocate" Allocate;
    63 PosixFallocate "posix_fallocate" Allocate;
    70 Stat "stat" Stat;
    71 Fstat "fstat" Stat;
    72 Lstat "lstat" Stat;
    73 Fstatat "fstatat" Stat;
    74 Statx "statx" Stat;
    80 Rename "rename" Rename;
    81 Unlink "unlink" Unlink;
    82 Rmdir "rmdir" Unlink;
    83 Remove "remove" Unlink;
    84 Mkdir "mkdir" MakeDirectory;
    85 Opendir "opendir" ReadDirectory;
    86 Getdents "getdents" ReadDirectory;
    90 Dup "dup" Duplicate;
    91 Dup2 "dup2" Duplicate;
    92 Fcntl "fcntl" Control;
    93 Flock "flock" Notice;
    100 Mmap "mmap" Map;
    101 CopyFileRange "copy_file_range" CopyRange;
    102 Sendfile "sendfile" SendFile;
    103 Splice "splice" Notice;
    104 Fadvise "posix_fadvise" Notice;
    105 Readahead "readahead" Notice;
    110 Access "access" Notice;
    111 Chmod "chmod" Notice;
    112 Chown "chown" Notice;
    113 Utimens "utimensat" Notice;
    114 Link "link" Notice;
    115 Symlink "symlink" Notice;
    116 Readlink "readlink" Notice;
    117 Xattr "xattr" Notice;
    118 Exec "exec" Notice;
    119 Other "other" Notice;
    120 Chdir "chdir" Notice;
    121 Statfs "statfs" Notice;
    122 Mknod "mknod" Notice;
    123 Realpath "realpath" Notice;
    // What a stage does on its own account.
    130 Flush "flush" Write;
    131 Fetch "fetch" Read;
    132 Move "move" Notice;
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        let names: HashSet<_> = Function::ALL.iter().map(|function| function.name()).collect();
        assert_eq!(names.len(), Function::ALL.len());
        for function in Function::ALL {
            assert_eq!(Function::of_code(*function as u8), Some(*function));
        }
        assert_eq!(Function::of_code(0), None);
    }
}
