//! [`FileSystem`]: the kind of a mounted file system, and what it needs: one table.
//!
//! The kind is recognised by the number in the superblock (`statfs`). The rows of the table decide
//! where files are opened: whether writers take turns, whether locks exclude other nodes, whether
//! clients see each other's writes at once, and in which units requests are aligned.
//! `docs/file-systems.md` has the same table; a test compares them.

use std::fmt::{self, Write as _};

/// A file system, by the number in its superblock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystem {
    magic: u64,
}

/// Which machines see the same files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// One node; the processes of it.
    Node,
    /// All nodes that mount it.
    Nodes,
    /// It depends on what is behind the mount.
    Unknown,
}

/// When a client sees what another one has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consistency {
    /// At once, as POSIX has it.
    Immediate,
    /// When the writer has synchronised or closed the file, and the reader has opened it, or asked
    /// for its state, after that.
    CloseToOpen,
}

/// Whom locks of byte ranges exclude.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockScope {
    /// All that use the file; if the mount has locks at all.
    All,
    /// Processes of the same node only, unless the administrator has changed that.
    Node,
}

/// How files are told their stripes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StripeControl {
    /// There is nothing to tell, or only tools of the administrator can.
    None,
    /// By Lustre's calls; see [`crate::lustre`].
    Lustre,
}

/// What a kind of file systems needs: a row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileSystemTraits {
    /// What it is called.
    pub name: &'static str,
    /// Its numbers.
    pub magics: &'static [u64],
    /// Which machines see its files.
    pub sharing: Sharing,
    /// When clients see each other's writes.
    pub consistency: Consistency,
    /// Whom locks exclude.
    pub locks: LockScope,
    /// How stripes are set.
    pub stripes: StripeControl,
    /// Whether the block size that it reports is the unit of its stripes, blocks or locks.
    pub aligned_to_blocks: bool,
    /// Whether `O_APPEND` is atomic between all that use the file.
    pub atomic_append: bool,
    /// Whether the writers of one file take turns, so that one at a time is best.
    pub serial_writes: bool,
}

const LOCAL: FileSystemTraits = FileSystemTraits {
    name: "",
    magics: &[],
    sharing: Sharing::Node,
    consistency: Consistency::Immediate,
    locks: LockScope::All,
    stripes: StripeControl::None,
    aligned_to_blocks: false,
    atomic_append: true,
    serial_writes: true,
};

const SHARED: FileSystemTraits =
    FileSystemTraits { sharing: Sharing::Nodes, serial_writes: false, ..LOCAL };

/// For numbers that are in no other row.
const OTHER: FileSystemTraits =
    FileSystemTraits { name: "others", sharing: Sharing::Unknown, atomic_append: false, ..SHARED };

/// The table. Numbers are those of linux/magic.h, or of the file system's own sources.
const TABLE: [FileSystemTraits; 18] = [
    FileSystemTraits {
        name: "Lustre",
        magics: &[0x0BD0_0BD0],
        stripes: StripeControl::Lustre,
        ..SHARED
    },
    FileSystemTraits { name: "GPFS", magics: &[0x4750_4653], aligned_to_blocks: true, ..SHARED },
    FileSystemTraits { name: "CephFS", magics: &[0x00C3_6400], aligned_to_blocks: true, ..SHARED },
    FileSystemTraits {
        name: "BeeGFS",
        magics: &[0x1983_0326],
        consistency: Consistency::CloseToOpen,
        locks: LockScope::Node,
        aligned_to_blocks: true,
        atomic_append: false,
        ..SHARED
    },
    FileSystemTraits {
        name: "NFS",
        magics: &[0x6969],
        consistency: Consistency::CloseToOpen,
        aligned_to_blocks: false,
        atomic_append: false,
        ..SHARED
    },
    FileSystemTraits {
        name: "SMB",
        magics: &[0xFE53_4D42, 0xFF53_4D42, 0x517B],
        consistency: Consistency::CloseToOpen,
        atomic_append: false,
        ..SHARED
    },
    FileSystemTraits { name: "PanFS", magics: &[0xAAD7_AAEA], atomic_append: false, ..SHARED },
    FileSystemTraits {
        name: "OrangeFS",
        magics: &[0x2003_0528],
        locks: LockScope::Node,
        atomic_append: false,
        ..SHARED
    },
    FileSystemTraits {
        name: "FUSE",
        magics: &[0x6573_5546],
        sharing: Sharing::Unknown,
        atomic_append: false,
        ..SHARED
    },
    FileSystemTraits { name: "ext2, ext3, ext4", magics: &[0xEF53], ..LOCAL },
    FileSystemTraits { name: "XFS", magics: &[0x5846_5342], ..LOCAL },
    FileSystemTraits { name: "btrfs", magics: &[0x9123_683E], ..LOCAL },
    FileSystemTraits { name: "F2FS", magics: &[0xF2F5_2010], ..LOCAL },
    FileSystemTraits { name: "ZFS", magics: &[0x2FC1_2FC1], ..LOCAL },
    FileSystemTraits { name: "tmpfs", magics: &[0x0102_1994], ..LOCAL },
    FileSystemTraits { name: "ramfs", magics: &[0x8584_58F6], ..LOCAL },
    FileSystemTraits { name: "overlayfs", magics: &[0x794C_7630], ..LOCAL },
    OTHER,
];

impl FileSystemTraits {
    /// The rows.
    pub const fn all() -> &'static [Self] {
        &TABLE
    }

    /// Whether a rank may write bytes back that it has read, under a lock: other nodes could have
    /// written them meanwhile if locks do not exclude them.
    pub fn may_sieve_writes(&self) -> bool {
        self.sharing == Sharing::Node || self.locks == LockScope::All
    }

    /// The table as it stands in the documentation.
    pub fn markdown() -> String {
        let mut text = String::from(
            "| file system | `statfs` | shared by | writes are seen | locks exclude | sieving writes | stripes | aligned to | \
             `O_APPEND` | writers |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for row in Self::all() {
            let magics: Vec<String> =
                row.magics.iter().map(|magic| format!("`0x{magic:X}`")).collect();
            let magics = if magics.is_empty() { "–".to_owned() } else { magics.join(", ") };
            let sieving = if row.may_sieve_writes() { "locked" } else { "never" };
            let aligned = match (row.stripes, row.aligned_to_blocks) {
                (StripeControl::Lustre, _) => "stripes",
                (StripeControl::None, true) => "`st_blksize`",
                (StripeControl::None, false) => "–",
            };
            let append = if row.atomic_append { "atomic" } else { "not atomic" };
            let writers = if row.serial_writes { "take turns" } else { "together" };
            let _ = writeln!(
                text,
                "| {} | {magics} | {} | {} | {} | {sieving} | {} | {aligned} | {append} | {writers} |",
                row.name, row.sharing, row.consistency, row.locks, row.stripes
            );
        }
        text
    }
}

impl fmt::Display for Sharing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Node => "one node",
            Self::Nodes => "nodes",
            Self::Unknown => "unknown",
        })
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Immediate => "at once",
            Self::CloseToOpen => "close to open",
        })
    }
}

impl fmt::Display for LockScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::All => "all",
            Self::Node => "the node",
        })
    }
}

impl fmt::Display for StripeControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "–",
            Self::Lustre => "hints",
        })
    }
}

impl FileSystem {
    /// Lustre.
    pub const LUSTRE: Self = Self { magic: 0x0BD0_0BD0 };

    /// By the `f_type` of `statfs`, which some systems extend by its sign.
    pub const fn from_type(magic: u64) -> Self {
        Self { magic: magic & 0xFFFF_FFFF }
    }

    /// That of a file or directory.
    pub fn of(path: &std::path::Path) -> std::io::Result<Self> {
        Ok(Self::from_type(rustix::fs::statfs(path)?.f_type as u64))
    }

    /// The number.
    pub const fn magic(self) -> u64 {
        self.magic
    }

    /// Whether it is Lustre.
    pub const fn is_lustre(self) -> bool {
        self.magic == Self::LUSTRE.magic
    }

    /// What it needs.
    pub fn traits(self) -> &'static FileSystemTraits {
        let row = TABLE.iter().find(|row| row.magics.contains(&self.magic));
        row.unwrap_or(&OTHER)
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.traits() {
            row if row.magics.is_empty() => write!(f, "0x{:X}", self.magic),
            row => f.pad(row.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_in_one_row() {
        for row in FileSystemTraits::all() {
            for magic in row.magics {
                assert_eq!(FileSystem::from_type(*magic).traits(), row);
                assert_eq!(FileSystem::from_type(*magic).to_string(), row.name);
                let rows = TABLE.iter().filter(|other| other.magics.contains(magic)).count();
                assert_eq!(rows, 1, "{magic:X}");
            }
        }
        assert_eq!(FileSystem::from_type(0x1234).traits().name, "others");
        assert_eq!(FileSystem::from_type(0x1234).to_string(), "0x1234");
    }

    #[test]
    fn the_documentation_has_the_same_table() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/file-systems.md");
        let text = std::fs::read_to_string(path).unwrap();
        let expected = FileSystemTraits::markdown();
        assert!(text.contains(&expected), "docs/file-systems.md should have\n{expected}");
    }

    #[test]
    fn foreign_bytes_are_not_written_back_where_locks_are_of_a_node() {
        let of = |magic| FileSystem::from_type(magic).traits();
        assert!(!of(0x1983_0326).may_sieve_writes() && of(0x6969).may_sieve_writes());
        assert!(of(0xEF53).may_sieve_writes() && of(0xEF53).serial_writes);
        assert!(!of(0x0BD0_0BD0).serial_writes);
    }
}
