//! Random datasets, written in parallel and read by netCDF4, agree with the model.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_array::{
    ArrayError, Char, Dataset, DimensionId, Format, Options, Owner, Pending, Type, Values,
    VariableId,
};
use striate_comm::Comm;

use crate::model::{Draw, Expected, MemoryForm, RankSlab, TestNumber, letter, parts, storage};
use crate::ranks;
use crate::tools::{PeerValue, ask, assert_valid, hex};
use crate::writing::of_type;

const SEEDS: u64 = 48;
/// A fill value that every type holds.
const FILL: i64 = 90;

/// A random dataset and its model; every rank draws the same numbers.
struct RandomDataset {
    draw: Draw,
    comm: Arc<dyn Comm>,
    names: Vec<String>,
    model: Vec<Expected>,
}

impl RandomDataset {
    fn define(
        &mut self,
        define: &mut striate_array::Definition,
        dimensions: &[DimensionId],
        unlimited: Option<DimensionId>,
    ) -> Result<(), ArrayError> {
        let draw = &mut self.draw;
        let format = define.format();
        let types: Vec<Type> = crate::types(format).collect();
        let external = draw.pick(&types);
        let mut own: Vec<DimensionId> = unlimited.filter(|_| draw.chance(50)).into_iter().collect();
        for _ in 0..draw.below(4) {
            own.push(draw.pick(dimensions));
        }
        let name = format!("v{}", self.names.len());
        let id = define.variable(&name, external, &own)?;
        if format.is_hdf5() {
            let storage = storage(draw, define.header(), id.index());
            define.storage(id, storage)?;
        }
        let mut expected = Expected::new(define.header(), id.index());
        if draw.chance(25) {
            define.fill(id, true);
            let bytes = of_type(external, FILL as i32);
            define.attribute(id, "_FillValue", Values::from_bytes(external, &bytes))?;
            expected.fill = Some(FILL);
            expected.values.fill(expected.fill);
        }
        self.names.push(name);
        self.model.push(expected);
        Ok(())
    }

    /// Draws the writes of all ranks to a variable, and updates the model.
    fn draw_parts(&mut self, variable: usize, op: u64) -> Vec<RankSlab> {
        let expected = &self.model[variable];
        let mut shape = expected.shape.clone();
        if expected.grows() {
            shape[0] = (shape[0] + self.draw.below(3)).max(1);
        }
        let parts = parts(&mut self.draw, &shape, self.comm.size() as u64);
        let touched: Vec<Vec<u64>> = parts.iter().flat_map(RankSlab::indices).collect();
        if let Some(&(time, true)) = self.model[variable].dimensions.first() {
            let records = touched.iter().map(|index| index[0] + 1).max().unwrap_or(0);
            for expected in &mut self.model {
                expected.grow(time, records);
            }
        }
        for index in &touched {
            let expected = &mut self.model[variable];
            let at = expected.at(index);
            expected.values[at] = Some(value(op, index));
        }
        parts
    }

    fn put(&mut self, data: &mut Dataset, op: u64) -> Result<(), ArrayError> {
        let variable = self.draw.below(self.model.len() as u64) as usize;
        let fills = self.model.iter().any(|one| one.grows() && one.fill.is_some());
        let parts = self.draw_parts(variable, op);
        let part = &parts[self.comm.rank()];
        let form = MemoryForm::draw(&mut self.draw, part.count.len());
        let values: Vec<i64> = part.indices().iter().map(|index| value(op, index)).collect();
        let call = self.draw.below(4);
        // Independent calls cannot add records in fill mode, nor to a netCDF-4 file.
        let call = if (fills || data.header().format.is_hdf5()) && call == 1 { 0 } else { call };
        let id = data.variables().nth(variable).unwrap();
        let memory = self.draw.below(3);
        match (self.model[variable].external, memory) {
            (Type::Char, _) => put_as::<Char>(data, id, part, &form, &values, call),
            (_, 0) => put_as::<i8>(data, id, part, &form, &values, call),
            (_, 1) => put_as::<i64>(data, id, part, &form, &values, call),
            _ => put_as::<f64>(data, id, part, &form, &values, call),
        }
    }
}

fn value(op: u64, index: &[u64]) -> i64 {
    letter(index.iter().fold(op * 7, |all, &i| all.wrapping_mul(31).wrapping_add(i)))
}

fn put_as<T: TestNumber>(
    data: &mut Dataset,
    variable: VariableId,
    part: &RankSlab,
    form: &MemoryForm,
    values: &[i64],
    call: u64,
) -> Result<(), ArrayError> {
    let memory: Vec<T> = form.fill(&part.count, values);
    let source = form.source(&part.count, &memory);
    let mut pending = Pending::new();
    match call {
        0 => return data.put_all(variable, &part.slab(), source),
        1 => {
            data.put(variable, &part.slab(), source)?;
            // Other ranks see it, and the next write comes later.
            return data.sync();
        }
        2 => data.iput(&mut pending, variable, &part.slab(), source)?,
        _ => data.bput(&mut pending, variable, &part.slab(), source)?,
    }
    data.wait_all(pending)
}

fn write(
    comm: &Arc<dyn Comm>,
    path: &Path,
    seed: u64,
    formats: &[Format],
) -> Result<RandomDataset, ArrayError> {
    let (names, model) = (Vec::new(), Vec::new());
    let mut dataset = RandomDataset { draw: Draw::new(seed), comm: Arc::clone(comm), names, model };
    let format = dataset.draw.pick(formats);
    let mut define = Dataset::create(comm, path, format, &Options::default())?;
    let mut dimensions = Vec::new();
    for i in 0..=dataset.draw.below(3) {
        dimensions.push(define.dimension(&format!("d{i}"), 1 + dataset.draw.below(6))?);
    }
    let unlimited = if dataset.draw.chance(60) { Some(define.unlimited("time")?) } else { None };
    for _ in 0..=dataset.draw.below(4) {
        dataset.define(&mut define, &dimensions, unlimited)?;
    }
    let mut data = define.end()?;
    for op in 0..4 + dataset.draw.below(6) {
        if dataset.draw.chance(15) {
            let mut define = data.redefine()?;
            let text = "x".repeat(dataset.draw.below(400) as usize + 1);
            define.attribute(Owner::Global, &format!("note{op}"), text)?;
            dataset.define(&mut define, &dimensions, unlimited)?;
            data = define.end()?;
        }
        dataset.put(&mut data, op)?;
    }
    data.close()?;
    Ok(dataset)
}

#[test]
fn random_datasets_agree_with_the_model() {
    compare(&crate::FORMATS);
}

#[test]
fn random_netcdf4_datasets_agree_with_the_model() {
    compare(&[Format::Netcdf4, Format::Netcdf4Classic]);
}

fn compare(formats: &[Format]) {
    let directory = tempfile::tempdir().unwrap();
    let mut datasets = Vec::new();
    for seed in 0..SEEDS {
        let path = directory.path().join(format!("{seed}.nc"));
        let count = 1 + seed as usize % 5;
        datasets.push(ranks(count, |comm| write(&comm, &path, seed, formats)).remove(0));
        if formats == crate::FORMATS {
            assert_valid(&path);
        }
    }
    let paths: Vec<PathBuf> =
        (0..SEEDS).map(|seed| directory.path().join(format!("{seed}.nc"))).collect();
    let mut compared = 0;
    let peers: &[&str] = if formats == crate::FORMATS { &["dump"] } else { &["dump", "h5py"] };
    for how in peers {
        compared += compare_listed(&ask(&[(how, &paths)]), &paths, &datasets);
    }
    println!("{compared} elements of {SEEDS} datasets");
    assert!(compared > 2000, "{compared}");
}

/// Compares what a peer has read with the models; returns the number of elements.
fn compare_listed(listed: &[PeerValue], paths: &[PathBuf], datasets: &[RandomDataset]) -> usize {
    let mut compared = 0;
    for (path, dataset) in paths.iter().zip(datasets) {
        for (name, expected) in dataset.names.iter().zip(&dataset.model) {
            let found = listed.iter().find(|one| one.file == *path && one.what == *name);
            let found = found.unwrap_or_else(|| panic!("{}: no {name}", path.display()));
            assert_eq!(found.external, expected.external);
            assert_eq!(found.shape, expected.shape, "{}: {name}", path.display());
            let digits = 2 * expected.external.size() as usize;
            for (i, value) in expected.values.iter().enumerate() {
                // Data that was never written may have any value.
                let Some(value) = value else { continue };
                let element = &found.data[i * digits..(i + 1) * digits];
                let right = hex(&of_type(expected.external, *value as i32));
                assert_eq!(element, right, "{}: {name} at {i}", path.display());
                compared += 1;
            }
        }
    }
    compared
}
