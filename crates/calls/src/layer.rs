//! Calls of layers above POSIX (MPI-IO): [`LayerFunction`], [`LayerCall`], and the C interface
//! [`ForeignCall`].
//!
//! A layer is a library of its own, whose calls on files reach the stack as all others do. The
//! stack cannot see which call of the program caused them, so the layer reports each of its calls
//! when it has ended, through two C functions of the preloaded library ([`BEGIN`], [`TELL`]). A
//! reported call does not pass through stages: there is nothing to answer, change or delay, only to
//! record.

use std::ffi::{CStr, c_char};
use std::path::Path;

macro_rules! functions {
    ($($code:literal $name:ident $text:literal $sort:ident $together:ident;)*) => {
        /// A function of a layer above POSIX. Its form for large counts and those of other
        /// languages are one function.
        ///
        /// The numbers are part of the format of traces: they are never given to another function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u16)]
        #[allow(missing_docs)] // `name` says it.
        pub enum LayerFunction { $($name = $code,)* }

        impl LayerFunction {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Its name in C.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// What it does.
            pub const fn sort(self) -> LayerSort {
                match self { $(Self::$name => LayerSort::$sort,)* }
            }

            /// Whether all ranks that have opened the file call it together.
            pub const fn is_collective(self) -> bool {
                match self { $(Self::$name => Participation::$together as u8 == Participation::Collective as u8,)* }
            }

            /// The function of a number.
            pub const fn of_code(code: u16) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }
        }
    };
}

/// What a call of a layer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LayerSort {
    /// Opens a file.
    Open,
    /// Closes it.
    Close,
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Makes data durable.
    Sync,
    /// Changes the size or reserves space.
    Size,
    /// Everything else: views, positions, questions.
    Other,
}

impl LayerSort {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Open, Self::Close, Self::Read, Self::Write, Self::Sync, Self::Size, Self::Other];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Size => "size",
            Self::Other => "other",
        }
    }
}

enum Participation {
    Collective,
    Independent,
}

functions! {
    1 MpiOpen "MPI_File_open" Open Collective;
    2 MpiClose "MPI_File_close" Close Collective;
    3 MpiDelete "MPI_File_delete" Other Independent;
    4 MpiSetSize "MPI_File_set_size" Size Collective;
    5 MpiPreallocate "MPI_File_preallocate" Size Collective;
    6 MpiGetSize "MPI_File_get_size" Other Independent;
    7 MpiSetInfo "MPI_File_set_info" Other Collective;
    8 MpiGetInfo "MPI_File_get_info" Other Independent;
    9 MpiSetView "MPI_File_set_view" Other Collective;
    10 MpiGetView "MPI_File_get_view" Other Independent;
    11 MpiSeek "MPI_File_seek" Other Independent;
    12 MpiSeekShared "MPI_File_seek_shared" Other Collective;
    13 MpiGetPosition "MPI_File_get_position" Other Independent;
    14 MpiGetPositionShared "MPI_File_get_position_shared" Other Independent;
    15 MpiSetAtomicity "MPI_File_set_atomicity" Other Collective;
    16 MpiGetAtomicity "MPI_File_get_atomicity" Other Independent;
    17 MpiSync "MPI_File_sync" Sync Collective;
    20 MpiReadAt "MPI_File_read_at" Read Independent;
    21 MpiReadAtAll "MPI_File_read_at_all" Read Collective;
    22 MpiIreadAt "MPI_File_iread_at" Read Independent;
    23 MpiIreadAtAll "MPI_File_iread_at_all" Read Collective;
    24 MpiRead "MPI_File_read" Read Independent;
    25 MpiReadAll "MPI_File_read_all" Read Collective;
    26 MpiIread "MPI_File_iread" Read Independent;
    27 MpiIreadAll "MPI_File_iread_all" Read Collective;
    28 MpiReadShared "MPI_File_read_shared" Read Independent;
    29 MpiIreadShared "MPI_File_iread_shared" Read Independent;
    30 MpiReadOrdered "MPI_File_read_ordered" Read Collective;
    31 MpiReadAtAllBegin "MPI_File_read_at_all_begin" Read Collective;
    32 MpiReadAtAllEnd "MPI_File_read_at_all_end" Read Collective;
    33 MpiReadAllBegin "MPI_File_read_all_begin" Read Collective;
    34 MpiReadAllEnd "MPI_File_read_all_end" Read Collective;
    35 MpiReadOrderedBegin "MPI_File_read_ordered_begin" Read Collective;
    36 MpiReadOrderedEnd "MPI_File_read_ordered_end" Read Collective;
    40 MpiWriteAt "MPI_File_write_at" Write Independent;
    41 MpiWriteAtAll "MPI_File_write_at_all" Write Collective;
    42 MpiIwriteAt "MPI_File_iwrite_at" Write Independent;
    43 MpiIwriteAtAll "MPI_File_iwrite_at_all" Write Collective;
    44 MpiWrite "MPI_File_write" Write Independent;
    45 MpiWriteAll "MPI_File_write_all" Write Collective;
    46 MpiIwrite "MPI_File_iwrite" Write Independent;
    47 MpiIwriteAll "MPI_File_iwrite_all" Write Collective;
    48 MpiWriteShared "MPI_File_write_shared" Write Independent;
    49 MpiIwriteShared "MPI_File_iwrite_shared" Write Independent;
    50 MpiWriteOrdered "MPI_File_write_ordered" Write Collective;
    51 MpiWriteAtAllBegin "MPI_File_write_at_all_begin" Write Collective;
    52 MpiWriteAtAllEnd "MPI_File_write_at_all_end" Write Collective;
    53 MpiWriteAllBegin "MPI_File_write_all_begin" Write Collective;
    54 MpiWriteAllEnd "MPI_File_write_all_end" Write Collective;
    55 MpiWriteOrderedBegin "MPI_File_write_ordered_begin" Write Collective;
    56 MpiWriteOrderedEnd "MPI_File_write_ordered_end" Write Collective;
    // What a nonblocking call began and another one, which waits or asks for it, carries out.
    60 MpiCompletion "MPI_File (completion)" Other Independent;
}

/// A call of a layer that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerCall<'c> {
    /// The function that the program called.
    pub function: LayerFunction,
    /// The file: an absolute path, or a name of another sort (`striate://…`).
    pub path: &'c Path,
    /// Identifies the files that the process has open in this layer; 0 if the call is on none.
    pub file: u64,
    /// Where, as the call said it: in units of the view if there is one.
    pub offset: Option<i64>,
    /// How many bytes were asked for; of a call about sizes, the size.
    pub length: u64,
    /// How many elements were asked for.
    pub count: u64,
    /// How many bytes were moved, or the class of the error.
    pub outcome: Result<u64, i32>,
    /// When it began and ended, as the door's clock counts.
    pub start: u64,
    /// See `start`.
    pub end: u64,
}

/// The function by which another library in the process learns when its call begins: a [`Begin`].
/// The time is not said in any unit; 0 means that no stage records calls.
pub const BEGIN: &CStr = c"striate_preload_layer_begin";
/// The function by which it reports the call when it has ended: a [`Tell`].
pub const TELL: &CStr = c"striate_preload_layer_call";

/// The type of [`BEGIN`].
pub type Begin = unsafe extern "C" fn() -> u64;
/// The type of [`TELL`]: with what [`BEGIN`] said, and the call.
pub type Tell = unsafe extern "C" fn(start: u64, call: *const ForeignCall);

/// No offset was said.
pub const NO_OFFSET: i64 = i64::MIN;

/// A [`LayerCall`] as it is passed between libraries that were built apart.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ForeignCall {
    /// The bytes of this structure. Later ones are longer, and begin like this.
    pub size: u32,
    /// The number of a [`LayerFunction`].
    pub function: u32,
    /// The file; null if there is none.
    pub path: *const c_char,
    /// See [`LayerCall::file`].
    pub file: u64,
    /// See [`LayerCall::offset`]; or [`NO_OFFSET`].
    pub offset: i64,
    /// See [`LayerCall::length`].
    pub length: u64,
    /// See [`LayerCall::count`].
    pub count: u64,
    /// Bytes that were moved.
    pub moved: u64,
    /// The class of the error; 0 if there was none.
    pub error: i32,
    /// Zero.
    pub reserved: u32,
}

impl ForeignCall {
    /// The bytes of this version of the structure.
    pub const SIZE: u32 = size_of::<Self>() as u32;
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn numbers_and_names_are_unique() {
        let names: HashSet<_> = LayerFunction::ALL.iter().map(|function| function.name()).collect();
        assert_eq!(names.len(), LayerFunction::ALL.len());
        for function in LayerFunction::ALL {
            assert_eq!(LayerFunction::of_code(*function as u16), Some(*function));
        }
        assert_eq!(LayerFunction::of_code(0), None);
    }

    #[test]
    fn names_say_what_functions_do() {
        for function in LayerFunction::ALL {
            let name = function.name().trim_start_matches("MPI_File_").trim_start_matches('i');
            let sort = match name.split('_').next() {
                Some("read") => LayerSort::Read,
                Some("write") => LayerSort::Write,
                _ => function.sort(),
            };
            assert_eq!(function.sort(), sort, "{name}");
            if name.contains("_all") || name.contains("_ordered") {
                assert!(function.is_collective(), "{name}");
            }
        }
        assert!(!LayerFunction::MpiWriteShared.is_collective());
    }

    #[test]
    fn the_structure_has_no_holes() {
        assert_eq!(ForeignCall::SIZE, 64);
    }
}
