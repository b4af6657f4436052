//! Opening a file with the requested striping, and reading back the actual one.
//!
//! On other file systems than Lustre, one call is made, which determines the file system: of the
//! directory if the file may have to be created with stripes, of the file otherwise.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::libc;

use super::FileSystem;
use super::control::{Creation, LayoutControl, SystemLayouts};
use super::layout::{ByteOrder, LustreLayout};
use super::report::{Obstacle, StripingReport};
use super::request::{StripeCount, StripeRequest};
use crate::error::{Cause, Operation, StoreError};
use crate::posix::PosixOptions;

/// An open file, and what was learned on the way.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    pub(crate) file_system: Option<FileSystem>,
    /// On Lustre.
    pub(crate) striping: Option<StripingReport>,
}

/// Opens or creates the file at `path`.
pub(crate) fn open(path: &Path, options: &PosixOptions) -> Result<Opened, StoreError> {
    let control = options.layouts.as_deref().unwrap_or(&SystemLayouts);
    let opening = Opening { path, options, control };
    let wanted = options.striping.filter(|request| !request.is_empty());
    if let Some(request) = wanted
        && options.create
        && options.write
    {
        // If there is no such directory, opening will say so.
        let file_system = control.file_system(opening.directory()).ok();
        return match file_system {
            Some(known) if known.is_lustre() => opening.create(&request),
            _ => {
                let file = opening.plainly().map_err(|source| opening.failed(source))?;
                Ok(Opened { file, file_system, striping: None })
            }
        };
    }
    let file = opening.plainly().map_err(|source| opening.failed(source))?;
    let file_system = control.file_system_of(file.as_fd()).ok();
    let striping = file_system.is_some_and(FileSystem::is_lustre).then(|| {
        let existed = wanted.map(|_| Obstacle::Existed);
        opening.report(
            opening.layout(&file),
            options.striping.unwrap_or_default(),
            None,
            existed.as_ref(),
        )
    });
    Ok(Opened { file, file_system, striping })
}

struct Opening<'a> {
    path: &'a Path,
    options: &'a PosixOptions,
    control: &'a dyn LayoutControl,
}

impl Opening<'_> {
    fn directory(&self) -> &Path {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        parent.unwrap_or(Path::new("."))
    }

    fn failed(&self, source: io::Error) -> StoreError {
        StoreError::system(Operation::Open, self.path.display().to_string(), source)
    }

    fn plainly(&self) -> io::Result<File> {
        let options = self.options;
        OpenOptions::new()
            .read(options.read)
            .write(options.write)
            .create(options.create && !options.exclusive)
            .create_new(options.create && options.exclusive)
            .truncate(options.truncate)
            .mode(options.mode)
            .open(self.path)
    }

    /// Opens a file on Lustre that is striped as `request` says if it is a new one.
    fn create(&self, request: &StripeRequest) -> Result<Opened, StoreError> {
        if !request.over_composite
            && let Some(obstacle) = self.objection()
        {
            return self.as_it_is(*request, None, &obstacle);
        }
        let targets = self.control.targets(self.directory()).ok();
        let layout = request
            .layout(targets)
            .ok_or_else(|| self.not_striped(request, io::Error::from_raw_os_error(libc::EINVAL)))?;
        let how = Creation { read: self.options.read, mode: self.options.mode };
        let file = match self.control.create(self.path, how) {
            Ok(file) => File::from(file),
            Err(error) if is(&error, &[libc::EEXIST]) && !self.options.exclusive => {
                return self.as_it_is(*request, targets, &Obstacle::Existed);
            }
            Err(error) => return Err(self.failed(error)),
        };
        let set = self.control.set_layout(file.as_fd(), &layout.encode(ByteOrder::NATIVE));
        let obstacle = match set {
            Ok(()) => None,
            // A client that knows no files without a layout, or another process was faster.
            Err(error) if is(&error, &[libc::EEXIST, libc::EALREADY]) => Some(Obstacle::Existed),
            Err(error) if is(&error, &[libc::ENOTTY, libc::EOPNOTSUPP, libc::ENOSYS]) => {
                Some(Obstacle::Refused(error.to_string()))
            }
            Err(error) => {
                // No other process has seen it yet: a second attempt must find the directory as
                // this one did.
                let _ = fs::remove_file(self.path);
                return Err(self.not_striped(request, error));
            }
        };
        let layout = self.layout(&file);
        if layout == Ok(None) {
            // It cannot be written as it is. Another open for writing gives it the default.
            let again = PosixOptions { create: false, exclusive: false, ..self.options.clone() };
            let again = Opening { options: &again, ..*self };
            return again.as_it_is(*request, targets, &obstacle.unwrap_or(Obstacle::Ignored));
        }
        let striping = Some(self.report(layout, *request, targets, obstacle.as_ref()));
        Ok(Opened { file, file_system: Some(FileSystem::LUSTRE), striping })
    }

    /// Opens a file on Lustre with the layout that it has, or that the file system gives it.
    fn as_it_is(
        &self,
        request: StripeRequest,
        targets: Option<u32>,
        obstacle: &Obstacle,
    ) -> Result<Opened, StoreError> {
        let file = self.plainly().map_err(|source| self.failed(source))?;
        let striping = self.report(self.layout(&file), request, targets, Some(obstacle));
        Ok(Opened { file, file_system: Some(FileSystem::LUSTRE), striping: Some(striping) })
    }

    /// What the directory has against files with a layout of their own. A default that cannot be
    /// read or understood is taken for one that was set up on purpose.
    fn objection(&self) -> Option<Obstacle> {
        match self.control.directory_default(self.directory()) {
            Ok(None) => None,
            Ok(Some(bytes)) => match LustreLayout::decode(&bytes) {
                Ok(layout) => layout.is_composite().then_some(Obstacle::CompositeDirectory),
                Err(_) => Some(Obstacle::UnknownDirectory),
            },
            Err(_) => Some(Obstacle::UnknownDirectory),
        }
    }

    /// The layout of a file, or why it is not known.
    fn layout(&self, file: &File) -> Result<Option<LustreLayout>, String> {
        let bytes = self.control.layout(file.as_fd()).map_err(|error| error.to_string())?;
        let layout = bytes.map(|bytes| LustreLayout::decode(&bytes)).transpose();
        layout.map_err(|error| error.to_string())
    }

    /// Compares the layout with what was asked for.
    fn report(
        &self,
        layout: Result<Option<LustreLayout>, String>,
        request: StripeRequest,
        targets: Option<u32>,
        obstacle: Option<&Obstacle>,
    ) -> StripingReport {
        // Asked for only where it matters: it takes another open.
        let matters = |layout: &Option<LustreLayout>| {
            layout.as_ref().is_some_and(LustreLayout::needs_targets)
                || request.count == Some(StripeCount::All)
        };
        let targets = targets.or_else(|| {
            let ask = layout.as_ref().is_ok_and(matters);
            ask.then(|| self.control.targets(self.directory()).ok()).flatten()
        });
        let actual = layout.map(|layout| layout.and_then(|layout| layout.striping(targets)));
        StripingReport::new(request, actual, targets, obstacle)
    }

    fn not_striped(&self, request: &StripeRequest, source: io::Error) -> StoreError {
        let cause = Cause::Striping { asked: request.to_string(), source };
        StoreError::new(Operation::Open, self.path.display().to_string(), cause)
    }
}

fn is(error: &io::Error, codes: &[i32]) -> bool {
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}
