//! A netCDF dataset that rank 0 has open.

use std::ffi::c_int;
use std::path::Path;

use striate_array::Format;
use striate_store::AlignedBuffer;

use super::super::c_library::{CLibrary as _, Hyperslab};
use super::super::shared_library::{LibraryFile, OpenSetting, SharedLibrary};
use super::super::{ArrayEngine, ArrayEngineError, EngineContext, RankCost, not_open};
use crate::array::memory::{Memory, buffer};
use crate::array::plan::{Access, FilePlan};

/// Of the messages that carry data.
const TAG: u32 = 0x6e63;

/// A dataset of netCDF.
#[derive(Debug)]
pub(super) struct Netcdf<'b> {
    library: &'static SharedLibrary,
    context: EngineContext<'b>,
    /// There on rank 0.
    file: Option<LibraryFile>,
    path: std::path::PathBuf,
    variables: Vec<c_int>,
    /// What elements are packed into by hand.
    packed: AlignedBuffer,
    /// What other ranks' elements are put into, on rank 0.
    of_other_ranks: AlignedBuffer,
}

impl<'b> Netcdf<'b> {
    pub(super) fn new(library: &'static SharedLibrary, context: EngineContext<'b>) -> Self {
        let largest = |plan: &super::super::ArrayPlan| {
            let files = plan.files.iter();
            let sizes = files.flat_map(|file| file.accesses().map(|one| one.bytes(&file.schema)));
            sizes.max().unwrap_or(0) as usize
        };
        let of_other_ranks = context.plans.iter().skip(1).map(largest).max();
        Self {
            library,
            file: None,
            path: std::path::PathBuf::new(),
            variables: Vec::new(),
            packed: buffer(largest(context.plan)),
            of_other_ranks: buffer(of_other_ranks.unwrap_or(0)),
            context,
        }
    }

    fn plan(&self, file: usize) -> &'b FilePlan {
        &self.context.plan.files[file]
    }

    fn open_file(
        &self,
        path: &Path,
        format: Option<Format>,
    ) -> Result<LibraryFile, ArrayEngineError> {
        let setting = OpenSetting { format, collective: false, hints: &[] };
        LibraryFile::open(self.library, path, &setting)
    }

    fn is_speaker(&self) -> bool {
        self.context.comm.rank() == 0
    }

    /// The same call of another rank.
    fn call_of(&self, rank: usize, file: usize, step: usize, call: usize) -> &'b Access {
        &self.context.plans[rank].files[file].steps[step][call]
    }

    /// The bytes of a call.
    fn bytes<'m>(&'m mut self, plan: &FilePlan, access: &Access, memory: &'m Memory) -> &'m [u8] {
        let number = plan.schema.variables[access.variable].number;
        if let Some(range) = memory.dense(access, number) {
            return &memory.buffers[access.area][range];
        }
        let packed = &mut self.packed[..access.bytes(&plan.schema) as usize];
        memory.pack(access, number, packed);
        packed
    }

    /// Writes what rank 0 has and what it gets. What other ranks send is received even after an
    /// error, so that none waits for ever.
    fn speak(
        &mut self,
        (file, step, call): (usize, usize, usize),
        memory: &Memory,
    ) -> Result<(), ArrayEngineError> {
        let plan = self.plan(file);
        let access = &plan.steps[step][call];
        let own = Hyperslab::new(plan, &self.variables, access);
        let held = self.file.take();
        let held = held.ok_or_else(not_open)?;
        let mut done = held.put(own, self.bytes(plan, access, memory));
        let comm = self.context.comm.clone();
        for rank in 1..comm.size() {
            let access = self.call_of(rank, file, step, call);
            let len = access.bytes(&plan.schema) as usize;
            let message = comm.wait(comm.receive(rank, TAG, len)?)?;
            let part = Hyperslab::new(plan, &self.variables, access);
            if done.is_ok() {
                // Messages lie anywhere, elements do not.
                let elements = &mut self.of_other_ranks[..len];
                elements.copy_from_slice(&message);
                done = held.put(part, elements);
            }
        }
        self.file = Some(held);
        done
    }

    /// Reads what rank 0 wants and what other ranks do. Those get an empty message after an error.
    fn read_for_all(
        &mut self,
        (file, step, call): (usize, usize, usize),
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let plan = self.plan(file);
        let access = &plan.steps[step][call];
        let number = plan.schema.variables[access.variable].number;
        let own = Hyperslab::new(plan, &self.variables, access);
        let comm = self.context.comm.clone();
        let held = self.file.take().ok_or_else(not_open)?;
        let mut done = if let Some(range) = memory.dense(access, number) {
            held.get(own, &mut memory.buffers[access.area][range])
        } else {
            let packed = &mut self.packed[..access.bytes(&plan.schema) as usize];
            held.get(own, packed).map(|()| memory.unpack(access, number, packed))
        };
        for rank in 1..comm.size() {
            let access = self.call_of(rank, file, step, call);
            let part = Hyperslab::new(plan, &self.variables, access);
            let elements = &mut self.of_other_ranks[..access.bytes(&plan.schema) as usize];
            if done.is_ok() {
                done = held.get(part, elements);
            }
            let message = if done.is_ok() { elements.to_vec() } else { Vec::new() };
            comm.wait(comm.send(rank, TAG, message)?)?;
        }
        self.file = Some(held);
        done
    }
}

impl ArrayEngine for Netcdf<'_> {
    fn create(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError> {
        if !self.is_speaker() {
            return Ok(());
        }
        self.path = path.to_path_buf();
        let made = self.open_file(path, Some(self.context.options.format))?;
        self.variables = made.define(&self.plan(file).schema)?;
        self.file = Some(made);
        Ok(())
    }

    fn open(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError> {
        if !self.is_speaker() {
            return Ok(());
        }
        self.path = path.to_path_buf();
        let opened = self.open_file(path, None)?;
        self.variables = opened.look_up(self.plan(file))?;
        self.file = Some(opened);
        Ok(())
    }

    fn inspect(&mut self, file: usize) -> Result<(), ArrayEngineError> {
        if !self.is_speaker() {
            return Ok(());
        }
        let schema = &self.plan(file).schema;
        self.file.as_ref().ok_or_else(not_open)?.compare(schema)
    }

    fn write(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let plan = self.plan(file);
        let comm = self.context.comm.clone();
        let mut done = Ok(());
        for (call, access) in plan.steps[step].iter().enumerate() {
            if self.is_speaker() {
                done = done.and(self.speak((file, step, call), memory));
            } else {
                let bytes = self.bytes(plan, access, memory).to_vec();
                comm.wait(comm.send(0, TAG, bytes)?)?;
            }
        }
        done
    }

    fn read(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let plan = self.plan(file);
        let comm = self.context.comm.clone();
        let mut done = Ok(());
        for (call, access) in plan.steps[step].iter().enumerate() {
            if self.is_speaker() {
                done = done.and(self.read_for_all((file, step, call), memory));
                continue;
            }
            let len = access.bytes(&plan.schema) as usize;
            let message = comm.wait(comm.receive(0, TAG, len)?)?;
            if message.len() != len {
                done = Err(ArrayEngineError::Absent("rank 0 could not read"));
                continue;
            }
            let number = plan.schema.variables[access.variable].number;
            if let Some(range) = memory.dense(access, number) {
                memory.buffers[access.area][range].copy_from_slice(&message);
            } else {
                let packed = &mut self.packed[..len];
                packed.copy_from_slice(&message);
                memory.unpack(access, number, packed);
            }
        }
        done
    }

    /// The library only empties its buffer; the system is asked for the rest.
    fn sync(&mut self) -> Result<(), ArrayEngineError> {
        if let Some(file) = &self.file {
            file.sync()?;
            std::fs::File::open(&self.path)?.sync_all()?;
        }
        Ok(())
    }

    fn close(&mut self) -> Result<Option<RankCost>, ArrayEngineError> {
        self.file.take().map_or(Ok(()), LibraryFile::close)?;
        Ok(None)
    }
}
