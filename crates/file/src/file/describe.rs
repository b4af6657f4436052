//! The first step of every access: which bytes of the file it means, as a description.

use std::ops::Range;

use striate_datatype::{Datatype, Element};
use striate_layout::characteristics::Method;
use striate_store::store::Placement;

use crate::access::FileSide;
use crate::hints::MethodChoice;
use crate::memory::Shape;
use crate::overlapping_read::OverlappingRead;
use crate::{File, FileError, View};

/// An access that is contiguous in the file and in memory.
pub(super) struct ContiguousRequest {
    /// Where it begins in the file.
    pub(super) offset: u64,
    /// Which bytes of the buffer it is.
    pub(super) memory: Range<usize>,
}

impl ContiguousRequest {
    pub(super) fn len(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Its bytes of the file.
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.len()
    }
}

impl File {
    /// The bytes of the file that an access at the view means.
    pub(super) fn describe(
        &self,
        call: &'static str,
        offset: u64,
        shape: &Shape,
    ) -> Result<FileSide, FileError> {
        FileSide::new(&self.view, self.stream_position(call, offset, shape)?, shape.len())
    }

    /// The access, if the view may show bytes of it more than once, and a buffer for these bytes.
    pub(super) fn describe_overlapping(
        &self,
        call: &'static str,
        offset: u64,
        shape: &Shape,
    ) -> Result<Option<(OverlappingRead, Vec<u8>)>, FileError> {
        if !self.view.overlaps() {
            return Ok(None);
        }
        let position = self.stream_position(call, offset, shape)?;
        if !self.view.folds(position, shape.len()) {
            return Ok(None);
        }
        let overlapping = OverlappingRead::new(&self.view, position, shape.len())?;
        let buffer = overlapping.buffer()?;
        Ok(Some((overlapping, buffer)))
    }

    /// Where an access of whole etypes begins in the view's stream.
    fn stream_position(
        &self,
        call: &'static str,
        offset: u64,
        shape: &Shape,
    ) -> Result<u64, FileError> {
        let etype = self.view.etype().size();
        if !shape.len().is_multiple_of(etype) {
            let reason = format!("{} bytes are not whole etypes of {etype} bytes", shape.len());
            return Err(FileError::Argument { call, reason });
        }
        offset.checked_mul(etype).ok_or_else(|| FileError::Argument {
            call,
            reason: format!("offset {offset} is beyond what a file can hold"),
        })
    }

    /// The bytes of the file that the caller describes itself.
    pub(super) fn describe_placement(
        call: &'static str,
        placement: &Placement,
        shape: &Shape,
    ) -> Result<FileSide, FileError> {
        if placement.len != shape.len() {
            let (memory, file) = (shape.len(), placement.len);
            let reason = format!("{memory} bytes of memory for {file} of the file");
            return Err(FileError::Argument { call, reason });
        }
        if placement.len == 0 {
            return FileSide::new(&View::bytes(), 0, 0);
        }
        // The same is required of views, for the same reasons.
        let byte = Datatype::element(Element::U8);
        View::new(placement.displacement, &byte, &placement.datatype)?
            .shows(placement.start, placement.len)?;
        Ok(FileSide::from_placement(placement.clone())?)
    }

    /// The access as one request, if it is contiguous in the file and in memory, and nothing else
    /// is asked for: most calls of most programs, which should cost what the system call costs.
    /// Such a request is not counted by the store but by
    /// [`super::accounting::Accounting::record_contiguous`].
    #[inline]
    pub(super) fn contiguous_request(
        &self,
        offset: u64,
        shape: &Shape,
    ) -> Option<ContiguousRequest> {
        let hints = &self.handle.hints;
        let may_be_posix =
            matches!(hints.method, MethodChoice::Auto | MethodChoice::Fixed(Method::Posix));
        let memory = shape.contiguous()?;
        let etype = self.view.etype().size();
        // A division would be a good part of what is done here.
        let whole_etypes = etype == 1 || shape.len().is_multiple_of(etype);
        if !may_be_posix || self.handle.atomic || shape.len() == 0 || !whole_etypes {
            return None;
        }
        let position = offset.checked_mul(etype)?;
        let start = self.view.run_at(position, shape.len())?;
        start.checked_add(shape.len()).filter(|&end| i64::try_from(end).is_ok())?;
        Some(ContiguousRequest { offset: start, memory: memory..memory + shape.len() as usize })
    }
}
