//! [`Kind`]: what an operation does, whichever function asked for it; [`Kinds`]: a set of kinds.

/// What an operation does, whichever function the program called for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Opens a file, and makes it if asked to.
    Open,
    /// Closes a descriptor.
    Close,
    /// Reads, at the position of the file or at a given one.
    Read,
    /// Writes, at the position of the file or at a given one.
    Write,
    /// Moves or asks for the position.
    Seek,
    /// Makes data durable.
    Sync,
    /// Changes the size of an open file.
    Truncate,
    /// Reserves, frees or zeroes space.
    Allocate,
    /// Asks for size, times and the like.
    Stat,
    /// Gives a file another name.
    Rename,
    /// Removes a name.
    Unlink,
    /// Makes a directory.
    MakeDirectory,
    /// Is about to list a directory.
    ReadDirectory,
    /// Makes another descriptor of an open file.
    Duplicate,
    /// Asks for or changes something about a descriptor (`fcntl`).
    Control,
    /// Is about to map a file into memory.
    Map,
    /// Copies bytes from file to file within the kernel.
    CopyRange,
    /// Sends bytes of a file to a descriptor within the kernel.
    SendFile,
    /// Is about to do something else with a file or a name: buffered data must be written first.
    Notice,
}

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 19;

    /// All of them.
    pub const ALL: [Self; Self::COUNT] = [
        Self::Open,
        Self::Close,
        Self::Read,
        Self::Write,
        Self::Seek,
        Self::Sync,
        Self::Truncate,
        Self::Allocate,
        Self::Stat,
        Self::Rename,
        Self::Unlink,
        Self::MakeDirectory,
        Self::ReadDirectory,
        Self::Duplicate,
        Self::Control,
        Self::Map,
        Self::CopyRange,
        Self::SendFile,
        Self::Notice,
    ];

    /// Its name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Close => "close",
            Self::Read => "read",
            Self::Write => "write",
            Self::Seek => "seek",
            Self::Sync => "sync",
            Self::Truncate => "truncate",
            Self::Allocate => "allocate",
            Self::Stat => "stat",
            Self::Rename => "rename",
            Self::Unlink => "unlink",
            Self::MakeDirectory => "mkdir",
            Self::ReadDirectory => "readdir",
            Self::Duplicate => "dup",
            Self::Control => "fcntl",
            Self::Map => "mmap",
            Self::CopyRange => "copy_file_range",
            Self::SendFile => "sendfile",
            Self::Notice => "other",
        }
    }
}

/// A set of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds(u32);

impl Kinds {
    /// No kind.
    pub const NONE: Self = Self(0);
    /// Every kind.
    pub const ALL: Self = Self((1 << Kind::COUNT) - 1);

    /// The set of these.
    pub const fn of(kinds: &[Kind]) -> Self {
        let (mut set, mut n) = (0, 0);
        while n < kinds.len() {
            set |= 1 << kinds[n] as u8;
            n += 1;
        }
        Self(set)
    }

    /// Both sets together.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The set without a kind.
    #[must_use]
    pub const fn without(self, kind: Kind) -> Self {
        Self(self.0 & !(1 << kind as u8))
    }

    /// Whether a kind is in it.
    pub const fn has(self, kind: Kind) -> bool {
        self.0 >> kind as u8 & 1 != 0
    }

    /// The kinds that are in both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The kinds in it.
    pub fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_they_were_made_of() {
        let set = Kinds::of(&[Kind::Read, Kind::Notice]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [Kind::Read, Kind::Notice]);
        assert_eq!(Kinds::ALL.iter().count(), Kind::COUNT);
        assert!(!Kinds::NONE.has(Kind::Open) && Kinds::ALL.has(Kind::Notice));
        for (place, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, place);
        }
    }
}
