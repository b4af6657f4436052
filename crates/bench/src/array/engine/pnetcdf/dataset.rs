//! A dataset of PnetCDF.

use std::ffi::c_int;
use std::path::Path;

use striate_store::AlignedBuffer;

use super::super::c_library::{CLibrary as _, Hyperslab};
use super::super::{ArrayEngine, ArrayEngineError, EngineContext, RankCost, not_open};
use super::library::{PnetcdfFile, Request};
use crate::array::ArrayOp;
use crate::array::memory::{Memory, buffer};
use crate::array::plan::{Access, FilePlan};

/// A dataset of PnetCDF.
#[derive(Debug)]
pub(super) struct Pnetcdf<'b> {
    component: Option<&'static str>,
    context: EngineContext<'b>,
    file: Option<PnetcdfFile>,
    variables: Vec<c_int>,
    /// What elements are packed into by hand.
    packed: AlignedBuffer,
}

/// Where the bytes of a call are.
#[derive(Clone, Debug)]
enum Place {
    /// In memory as they are.
    Area(usize, std::ops::Range<usize>),
    /// In the buffer, packed.
    Packed(std::ops::Range<usize>),
}

impl<'b> Pnetcdf<'b> {
    pub(super) fn new(component: Option<&'static str>, context: EngineContext<'b>) -> Self {
        // Requests keep what is packed until they are waited for.
        let packed = |file: &FilePlan, calls: &[Access]| {
            let sizes = calls.iter().map(|access| access.bytes(&file.schema));
            if context.nonblocking { sizes.sum() } else { sizes.max().unwrap_or(0) }
        };
        let files = context.plan.files.iter();
        let steps = files.flat_map(|file| file.steps.iter().map(move |calls| packed(file, calls)));
        let packed = buffer(steps.max().unwrap_or(0) as usize);
        Self { component, context, file: None, variables: Vec::new(), packed }
    }

    fn plan(&self, file: usize) -> &'b FilePlan {
        &self.context.plan.files[file]
    }

    fn file(&self) -> Result<&PnetcdfFile, ArrayEngineError> {
        self.file.as_ref().ok_or_else(not_open)
    }

    /// Where the bytes of each call are. Calls that are done one after the other use the same
    /// buffer.
    fn places(&self, plan: &FilePlan, calls: &[Access], memory: &Memory) -> Vec<Place> {
        let mut end = 0;
        let place = |access: &Access| {
            let number = plan.schema.variables[access.variable].number;
            if let Some(range) = memory.dense(access, number) {
                return Place::Area(access.area, range);
            }
            let start = if self.context.nonblocking { end } else { 0 };
            end = start + access.bytes(&plan.schema) as usize;
            Place::Packed(start..end)
        };
        calls.iter().map(place).collect()
    }

    fn pack(&mut self, plan: &FilePlan, access: &Access, place: &Place, memory: &Memory) {
        if let Place::Packed(range) = place {
            let number = plan.schema.variables[access.variable].number;
            memory.pack(access, number, &mut self.packed[range.clone()]);
        }
    }

    fn unpack(&self, plan: &FilePlan, access: &Access, place: &Place, memory: &mut Memory) {
        if let Place::Packed(range) = place {
            let number = plan.schema.variables[access.variable].number;
            memory.unpack(access, number, &self.packed[range.clone()]);
        }
    }

    /// Begins all calls and waits for them.
    fn all_at_once(
        &mut self,
        plan: &FilePlan,
        calls: &[Access],
        places: &[Place],
        memory: &mut Memory,
        op: ArrayOp,
    ) -> Result<(), ArrayEngineError> {
        // One pointer for each buffer, so that none is recreated while requests use it.
        let areas: Vec<*mut u8> =
            memory.buffers.iter_mut().map(|buffer| buffer.as_mut_ptr()).collect();
        let packed = self.packed.as_mut_ptr();
        let file = self.file()?;
        let mut requests: Vec<Request> = Vec::with_capacity(calls.len());
        for (access, place) in calls.iter().zip(places) {
            let (base, range) = match place {
                Place::Area(area, range) => (areas[*area], range),
                Place::Packed(range) => (packed, range),
            };
            let part = Hyperslab::new(plan, &self.variables, access);
            // SAFETY: the range lies in its buffer, as it was made from that. Both are borrowed
            // mutably until this function returns; before, all requests are waited for, and after
            // an error the file, whose calls alone carry them out, is never used again.
            let begun = unsafe {
                let elements = base.add(range.start);
                if op == ArrayOp::Write {
                    file.begin_put(part, elements, range.len())
                } else {
                    file.begin_get(part, elements, range.len())
                }
            };
            match begun {
                Ok(request) => requests.push(request),
                Err(error) => {
                    self.file = None;
                    return Err(error);
                }
            }
        }
        let done = file.wait_all(&requests);
        if done.is_err() {
            self.file = None;
        }
        done
    }
}

impl ArrayEngine for Pnetcdf<'_> {
    fn create(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError> {
        let options = self.context.options;
        let (format, hints) = (Some(options.format), &options.hints);
        let mut made = PnetcdfFile::open(path, format, self.component, hints)?;
        self.variables = made.define(&self.plan(file).schema)?;
        made.set_mode(options.mode)?;
        self.file = Some(made);
        Ok(())
    }

    fn open(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError> {
        let options = self.context.options;
        let mut opened = PnetcdfFile::open(path, None, self.component, &options.hints)?;
        self.variables = opened.look_up(self.plan(file))?;
        opened.set_mode(options.mode)?;
        self.file = Some(opened);
        Ok(())
    }

    fn inspect(&mut self, file: usize) -> Result<(), ArrayEngineError> {
        let schema = &self.plan(file).schema;
        self.file()?.compare(schema)
    }

    fn write(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let plan = self.plan(file);
        let calls = &plan.steps[step];
        let places = self.places(plan, calls, memory);
        for (access, place) in calls.iter().zip(&places) {
            self.pack(plan, access, place, memory);
            if self.context.nonblocking {
                continue;
            }
            let part = Hyperslab::new(plan, &self.variables, access);
            let file = self.file.as_ref().ok_or_else(not_open)?;
            match place.clone() {
                Place::Area(area, range) => file.put(part, &mut memory.buffers[area][range])?,
                Place::Packed(range) => file.put(part, &mut self.packed[range])?,
            }
        }
        if self.context.nonblocking {
            self.all_at_once(plan, calls, &places, memory, ArrayOp::Write)?;
        }
        Ok(())
    }

    fn read(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let plan = self.plan(file);
        let calls = &plan.steps[step];
        let places = self.places(plan, calls, memory);
        if self.context.nonblocking {
            self.all_at_once(plan, calls, &places, memory, ArrayOp::Read)?;
        }
        for (access, place) in calls.iter().zip(&places) {
            if !self.context.nonblocking {
                let part = Hyperslab::new(plan, &self.variables, access);
                let file = self.file.as_ref().ok_or_else(not_open)?;
                match place.clone() {
                    Place::Area(area, range) => file.get(part, &mut memory.buffers[area][range])?,
                    Place::Packed(range) => file.get(part, &mut self.packed[range])?,
                }
            }
            self.unpack(plan, access, place, memory);
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), ArrayEngineError> {
        self.file()?.sync()
    }

    fn close(&mut self) -> Result<Option<RankCost>, ArrayEngineError> {
        self.file.take().ok_or_else(not_open)?.close()?;
        Ok(None)
    }
}
