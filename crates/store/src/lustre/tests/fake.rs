//! A simulated Lustre: files are real, their layouts are in a table.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;

use super::super::*;
use super::bytes::stripes;

/// How it behaves, and what was asked of it.
#[derive(Debug)]
pub(super) struct FakeLustre {
    pub(super) file_system: FileSystem,
    pub(super) targets: u32,
    /// The default of every directory: for files that are created without asking for more.
    pub(super) default: Vec<u8>,
    /// Whether that is a directory's own, and not just what files get.
    pub(super) default_shows: bool,
    /// What setting a layout fails with.
    pub(super) refusal: Option<i32>,
    /// Whether setting a layout does nothing.
    pub(super) ignores: bool,
    /// The most stripes that a file is given.
    pub(super) most: u16,
    pub(super) state: Mutex<FakeState>,
}

#[derive(Debug, Default)]
pub(super) struct FakeState {
    layouts: HashMap<u64, Vec<u8>>,
    /// Descriptors of files that were created without a layout.
    bare: Vec<i32>,
    calls: Vec<&'static str>,
}

impl Default for FakeLustre {
    fn default() -> Self {
        Self {
            file_system: FileSystem::LUSTRE,
            targets: 8,
            default: stripes(1 << 20, 1, &[5]),
            default_shows: false,
            refusal: None,
            ignores: false,
            most: u16::MAX,
            state: Mutex::default(),
        }
    }
}

impl FakeLustre {
    /// The calls since the last time.
    pub(super) fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.state.lock().unwrap().calls)
    }

    fn called(&self, call: &'static str) {
        self.state.lock().unwrap().calls.push(call);
    }

    fn number(file: BorrowedFd<'_>) -> u64 {
        File::from(file.try_clone_to_owned().unwrap()).metadata().unwrap().ino()
    }
}

impl LayoutControl for FakeLustre {
    fn file_system(&self, _: &Path) -> io::Result<FileSystem> {
        self.called("file_system");
        Ok(self.file_system)
    }

    fn file_system_of(&self, _: BorrowedFd<'_>) -> io::Result<FileSystem> {
        self.called("file_system_of");
        Ok(self.file_system)
    }

    fn create(&self, path: &Path, how: Creation) -> io::Result<OwnedFd> {
        self.called("create");
        assert_eq!(how.mode, 0o666);
        let file = fs::OpenOptions::new().read(how.read).write(true).create_new(true).open(path)?;
        self.state.lock().unwrap().bare.push(file.as_raw_fd());
        Ok(file.into())
    }

    fn set_layout(&self, file: BorrowedFd<'_>, layout: &[u8]) -> io::Result<()> {
        self.called("set");
        assert_eq!(File::from(file.try_clone_to_owned()?).metadata()?.len(), 0, "not written yet");
        if let Some(code) = self.refusal {
            return Err(io::Error::from_raw_os_error(code));
        }
        if self.ignores {
            return Ok(());
        }
        let Ok(LustreLayout::Plain(asked)) = LustreLayout::decode(layout) else {
            panic!("{layout:?}")
        };
        assert_eq!(asked.encode(ByteOrder::NATIVE), layout);
        let count = asked.count.clamp(1, self.most);
        let unit = if asked.unit == 0 { 1 << 20 } else { asked.unit };
        let start = if asked.start == 0xFFFF { 0 } else { u32::from(asked.start) };
        let targets: Vec<u32> =
            (0..u32::from(count)).map(|stripe| (start + stripe) % self.targets).collect();
        let number = Self::number(file);
        self.state.lock().unwrap().layouts.insert(number, stripes(unit, count, &targets));
        Ok(())
    }

    fn layout(&self, file: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
        self.called("layout");
        let state = self.state.lock().unwrap();
        if let Some(layout) = state.layouts.get(&Self::number(file)) {
            return Ok(Some(layout.clone()));
        }
        let bare = state.bare.contains(&file.as_fd().as_raw_fd());
        Ok((!bare).then(|| self.default.clone()))
    }

    fn directory_default(&self, _: &Path) -> io::Result<Option<Vec<u8>>> {
        self.called("directory_default");
        Ok(self.default_shows.then(|| self.default.clone()))
    }

    fn targets(&self, _: &Path) -> io::Result<u32> {
        self.called("targets");
        Ok(self.targets)
    }
}
