//! Random steps for [`NamesProgram`](super::NamesProgram).

#![allow(unreachable_pub)]

use super::{NameStep, PathForm};

/// Numbers that look random and are the same every time.
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03)
    }

    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % end as u64) as usize
    }

    fn of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }
}

fn path(dice: &mut Dice) -> String {
    let directory =
        dice.of(&["", "a/", "a/b/", "link/", "./a/", "a/../a/", "a//b/", "new/", "link/b/"]);
    let name = dice.of(&["x", "x", "y", "z", "to_x", "to_link_x"]);
    format!("{directory}{name}")
}

fn directory(dice: &mut Dice) -> String {
    dice.of(&["a", "a/b", "link", "new", "a/c", "x", "."]).to_owned()
}

fn way(dice: &mut Dice) -> PathForm {
    dice.of(&[PathForm::Absolute, PathForm::FromRoot])
}

fn flags(dice: &mut Dice) -> i32 {
    use libc::{
        O_APPEND, O_CLOEXEC, O_CREAT, O_EXCL, O_NOFOLLOW, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY,
    };
    let made = O_CREAT | O_TRUNC;
    dice.of(&[
        made | O_WRONLY,
        made | O_WRONLY,
        made | O_RDWR,
        made | O_RDWR | O_CLOEXEC,
        O_CREAT | O_EXCL | O_WRONLY,
        O_CREAT | O_EXCL | O_RDWR,
        O_CREAT | O_RDWR,
        O_CREAT | O_WRONLY | O_APPEND,
        made | O_WRONLY | O_APPEND,
        O_RDONLY,
        O_RDONLY,
        O_RDWR,
        O_WRONLY | O_TRUNC,
        O_RDWR | O_NOFOLLOW,
        O_RDWR | O_APPEND,
    ])
}

fn place(dice: &mut Dice) -> Option<u64> {
    (dice.below(3) == 0).then(|| dice.below(300) as u64)
}

/// One step. `large` is a length that is too long for what a stage holds.
pub fn step(dice: &mut Dice, large: usize) -> NameStep {
    let file = dice.below(1 << 20);
    match dice.below(100) {
        0..17 => NameStep::Open(
            path(dice),
            way(dice),
            flags(dice),
            dice.of(&[0o644, 0o600, 0o666, 0o444]),
        ),
        17 => NameStep::Mkdir("new".into()),
        18 => NameStep::Rmdir("new".into()),
        19 => NameStep::Rmdir(dice.of(&["a/b", "new", "a/c"]).to_owned()),
        20..32 => NameStep::Close(file),
        32..48 => {
            let length = if dice.below(20) == 0 { large } else { dice.below(200) };
            let bytes = (0..length).map(|_| dice.below(256) as u8).collect();
            NameStep::Write(file, bytes, place(dice))
        }
        48..54 => NameStep::Read(file, dice.below(300), place(dice)),
        54..57 => NameStep::Seek(file, dice.below(200) as i64 - 50, dice.below(3) as i32),
        57..59 => NameStep::Truncate(file, dice.below(400) as u64),
        59 => NameStep::Allocate(file, dice.below(300) as u64, dice.below(100) as u64),
        60..63 => NameStep::Fstat(file),
        63 => NameStep::Sync(file),
        64..66 => NameStep::Dup(file),
        66..68 => NameStep::Copy(file, dice.below(1 << 20), dice.below(400)),
        68 => NameStep::Append(file, dice.below(2) == 0),
        69 => NameStep::Fchmod(file, dice.of(&[0o644, 0o640])),
        70..76 => NameStep::Stat(path(dice), way(dice), dice.below(3) > 0),
        76 => NameStep::Access(path(dice)),
        77..81 => NameStep::Unlink(path(dice), way(dice)),
        81 => NameStep::Rmdir(directory(dice)),
        82 => NameStep::Mkdir(directory(dice)),
        83..89 => NameStep::Rename(path(dice), path(dice), u32::from(dice.below(5) == 0)),
        89 => NameStep::Rename(directory(dice), directory(dice), 0),
        90..92 => NameStep::List(directory(dice)),
        92 => NameStep::Link(path(dice), path(dice)),
        93 => NameStep::Symlink(dice.of(&["x", "a/x", "b/x", "../x"]).to_owned(), path(dice)),
        94 => NameStep::Chmod(
            dice.of(&["x", "a/x", "a", "a/b/y"]).to_owned(),
            dice.of(&[0o755, 0o700]),
        ),
        95 => NameStep::TruncatePath(path(dice), dice.below(300) as u64),
        96..98 => NameStep::Share(file),
        98 => NameStep::Stat(directory(dice), way(dice), true),
        _ => NameStep::SettleAll,
    }
}
