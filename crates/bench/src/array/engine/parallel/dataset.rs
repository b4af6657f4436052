//! A dataset that the ranks of a job have open together, through a library in C.

use std::ffi::c_int;
use std::path::Path;

use striate_array::Format;
use striate_store::AlignedBuffer;

use super::super::c_library::{CLibrary as _, Hyperslab};
use super::super::shared_library::{LibraryFile, OpenSetting, SharedLibrary};
use super::super::{ArrayEngine, ArrayEngineError, EngineContext, RankCost, not_open};
use crate::array::CallMode;
use crate::array::memory::{Memory, buffer};
use crate::array::plan::FilePlan;
use crate::mpiio;

/// The engine of a library.
pub(super) fn engine<'b>(
    library: &'static SharedLibrary,
    component: Option<&'static str>,
    context: &EngineContext<'b>,
) -> Result<Box<dyn ArrayEngine + 'b>, ArrayEngineError> {
    let running = mpiio::ready();
    running.map_err(|_| ArrayEngineError::Absent("it needs the ranks of an MPI job"))?;
    let files = context.plan.files.iter();
    let sizes = files.flat_map(|file| file.accesses().map(|one| one.bytes(&file.schema)));
    Ok(Box::new(ParallelDataset {
        library,
        component,
        packed: buffer(sizes.max().unwrap_or(0) as usize),
        context: context.clone(),
        file: None,
        variables: Vec::new(),
    }))
}

/// A dataset of a library.
#[derive(Debug)]
struct ParallelDataset<'b> {
    library: &'static SharedLibrary,
    component: Option<&'static str>,
    context: EngineContext<'b>,
    file: Option<LibraryFile>,
    variables: Vec<c_int>,
    /// What elements are packed into by hand.
    packed: AlignedBuffer,
}

impl<'b> ParallelDataset<'b> {
    fn plan(&self, file: usize) -> &'b FilePlan {
        &self.context.plan.files[file]
    }

    fn open_file(
        &self,
        path: &Path,
        format: Option<Format>,
    ) -> Result<LibraryFile, ArrayEngineError> {
        let options = self.context.options;
        let setting = OpenSetting {
            format,
            collective: options.mode == CallMode::Collective,
            hints: &options.hints,
        };
        let _preferred = self.component.map(prefer).transpose()?;
        LibraryFile::open(self.library, path, &setting)
    }
}

/// Asks for an implementation of MPI-IO, until this is dropped.
fn prefer(component: &'static str) -> Result<mpiio::Preference, ArrayEngineError> {
    mpiio::Preference::new(component).ok_or(ArrayEngineError::NoComponent(component))
}

impl ArrayEngine for ParallelDataset<'_> {
    fn create(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError> {
        let made = self.open_file(path, Some(Format::Netcdf4))?;
        self.variables = made.define(&self.plan(file).schema)?;
        self.file = Some(made);
        Ok(())
    }

    fn open(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError> {
        let opened = self.open_file(path, None)?;
        self.variables = opened.look_up(self.plan(file))?;
        self.file = Some(opened);
        Ok(())
    }

    fn inspect(&mut self, file: usize) -> Result<(), ArrayEngineError> {
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
        for access in &plan.steps[step] {
            let number = plan.schema.variables[access.variable].number;
            let part = Hyperslab::new(plan, &self.variables, access);
            let file = self.file.as_ref().ok_or_else(not_open)?;
            if let Some(range) = memory.dense(access, number) {
                file.put(part, &memory.buffers[access.area][range])?;
            } else {
                let packed = &mut self.packed[..access.bytes(&plan.schema) as usize];
                memory.pack(access, number, packed);
                file.put(part, packed)?;
            }
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
        for access in &plan.steps[step] {
            let number = plan.schema.variables[access.variable].number;
            let part = Hyperslab::new(plan, &self.variables, access);
            let file = self.file.as_ref().ok_or_else(not_open)?;
            if let Some(range) = memory.dense(access, number) {
                file.get(part, &mut memory.buffers[access.area][range])?;
            } else {
                let packed = &mut self.packed[..access.bytes(&plan.schema) as usize];
                file.get(part, packed)?;
                memory.unpack(access, number, packed);
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), ArrayEngineError> {
        self.file.as_ref().ok_or_else(not_open)?.sync()
    }

    fn close(&mut self) -> Result<Option<RankCost>, ArrayEngineError> {
        self.file.take().ok_or_else(not_open)?.close()?;
        Ok(None)
    }
}
