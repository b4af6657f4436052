//! The results of a benchmark: rows, and the ratios between them.

mod layouts;

use serde::Serialize;
use striate_datatype::Bytes;
use striate_file::Stats;
use striate_statistics::{Median, Ratio, median, spread};

use super::engine::EngineContext;
use super::plan::Growth;
use super::{ArrayApi, ArrayOp, ArrayWorkload, CallMode, Layout, Scope};
use crate::cost::Cost;

/// The least that ratios of rates should reach.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArrayGoals {
    /// Of writing or creating: ours over the fastest parallel library.
    pub write: Option<f64>,
    /// Of reading or opening: ours over the fastest parallel library.
    pub read: Option<f64>,
    /// Of writing: ours over plain system calls.
    pub raw: Option<f64>,
    /// Of reading: ours over plain system calls.
    pub raw_read: Option<f64>,
    /// Of writing: ours over the compressor alone.
    pub compressor: Option<f64>,
}

impl ArrayGoals {
    /// These goals, and those of `other` where there is none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            write: self.write.or(other.write),
            read: self.read.or(other.read),
            raw: self.raw.or(other.raw),
            raw_read: self.raw_read.or(other.raw_read),
            compressor: self.compressor.or(other.compressor),
        }
    }
}

/// One measurement.
#[derive(Clone, Debug)]
pub(super) struct ArraySample {
    /// Seconds of the data calls.
    pub(super) moving: f64,
    /// Seconds of opening, with definitions, and closing.
    pub(super) around: f64,
    /// What the calls of all ranks cost, where the engine counts.
    pub(super) stats: Option<Stats>,
    /// What partitions cost, if there are any.
    pub(super) divided: Option<PartitionCost>,
}

/// What partitions cost.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartitionCost {
    /// How many there are; of several files, the most.
    pub(super) partitions: u64,
    /// Bytes that went from rank to rank.
    pub(super) exchanged: u64,
    /// Seconds of the exchange.
    pub(super) exchange: f64,
}

impl ArraySample {
    fn seconds(&self, scope: Scope) -> f64 {
        let seconds = match scope {
            Scope::Data => self.moving,
            Scope::Whole => self.moving + self.around,
        };
        seconds.max(1e-9)
    }
}

/// All measurements of a contender.
#[derive(Debug)]
pub(super) struct ArraySeries {
    api: ArrayApi,
    samples: Vec<(ArrayOp, ArraySample)>,
    read_by: Vec<&'static str>,
}

impl ArraySeries {
    pub(super) const fn new(api: ArrayApi) -> Self {
        Self { api, samples: Vec::new(), read_by: Vec::new() }
    }

    pub(super) fn add(&mut self, op: ArrayOp, sample: ArraySample) {
        self.samples.push((op, sample));
    }

    /// Another read its files, and all was well.
    pub(super) fn read_by(&mut self, reader: ArrayApi) {
        self.read_by.push(reader.name());
    }
}

/// The samples of one contender, for one direction and scope. What does not apply is absent.
#[derive(Clone, Debug, Serialize)]
pub struct ArrayRow {
    /// The workload.
    pub workload: &'static str,
    /// Whose library.
    pub api: &'static str,
    /// How the dataset lies on targets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout: Option<Layout>,
    /// How many times slower the straggler was, in each repetition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slower: Vec<f64>,
    /// Type of the file system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// Number of ranks.
    pub ranks: u64,
    /// Calls are collective.
    pub collective: bool,
    /// Whether calls are begun, and waited for together.
    pub nonblocking: bool,
    /// The direction.
    pub op: ArrayOp,
    /// What is timed.
    pub scope: Scope,
    /// The format of the files.
    pub format: String,
    /// How many files there are.
    pub files: u64,
    /// How many variables they have together.
    pub variables: u64,
    /// Bytes that lie together in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block: Option<u64>,
    /// Bytes of data of all ranks in one repetition; without data, those of the headers.
    pub bytes: u64,
    /// Median rate: bytes over the time of the slowest rank.
    pub median_mib_s: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// All samples in order.
    pub samples: Vec<f64>,
    /// How much they vary: standard deviation over mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
    /// Median seconds.
    pub median_s: f64,
    /// Median seconds of opening, with definitions, and closing.
    pub open_s: f64,
    /// Whether everything was verified.
    pub verified: bool,
    /// The other libraries that read these files, and found what was written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read_by: Vec<&'static str>,
    /// The library that made the files, if it was one for all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub made_by: Option<&'static str>,
    /// Bytes of a chunk, in formats with chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u64>,
    /// What went between ranks for the sake of partitions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exchange: Option<Exchange>,
    /// What all calls of a repetition cost a client: the mean over the ranks.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub cost: Option<Cost>,
}

/// What went between ranks and partitions in the data calls.
#[derive(Clone, Debug, Serialize)]
pub struct Exchange {
    /// Partitions, in each repetition.
    pub partitions: Vec<u64>,
    /// Bytes that went from rank to rank in one repetition.
    pub bytes: u64,
    /// Its part of the time of the data calls, in each repetition; of each call, on the rank that
    /// waits least for other ranks.
    pub shares: Vec<f64>,
    /// The median of that.
    pub median_share: f64,
}

/// All that was measured.
#[derive(Clone, Debug, Default)]
pub struct ArrayResults {
    /// A row per direction, scope and contender.
    pub rows: Vec<ArrayRow>,
    /// The comparisons.
    pub ratios: Vec<Ratio>,
    /// The versions of the peers, as they print them.
    pub peers: Vec<String>,
}

impl ArrayResults {
    pub(super) fn new(
        workload: &dyn ArrayWorkload,
        context: &EngineContext<'_>,
        series: &[ArraySeries],
        ops: &[ArrayOp],
        bytes: u64,
    ) -> Self {
        let mut results = Self::default();
        // Without data there is nothing but the whole.
        let scopes: &[Scope] = if ops.contains(&ArrayOp::Read) {
            &[Scope::Data, Scope::Whole]
        } else {
            &[Scope::Whole]
        };
        for &op in ops {
            for &scope in scopes {
                let row = |series| row(workload, context, series, (op, scope), bytes);
                let rows: Vec<ArrayRow> = series.iter().filter_map(row).collect();
                results.ratios.extend(ratios(&rows, context, op));
                results.ratios.extend(layouts::ratios(&rows));
                results.rows.extend(rows);
            }
        }
        for api in &context.options.contenders {
            if let Some(version) = api.version().filter(|version| !results.peers.contains(version))
            {
                results.peers.push(version);
            }
        }
        results
    }
}

fn row(
    workload: &dyn ArrayWorkload,
    context: &EngineContext<'_>,
    series: &ArraySeries,
    (op, scope): (ArrayOp, Scope),
    bytes: u64,
) -> Option<ArrayRow> {
    let EngineContext { plan, options, .. } = context;
    let bytes = if bytes > 0 { bytes } else { header_bytes(context) };
    let mib = bytes as f64 / f64::from(1 << 20);
    let all: Vec<&ArraySample> =
        series.samples.iter().filter(|sample| sample.0 == op).map(|sample| &sample.1).collect();
    let seconds: Vec<f64> = all.iter().map(|sample| sample.seconds(scope)).collect();
    let around: Vec<f64> = all.iter().map(|sample| sample.around).collect();
    let samples: Vec<f64> = seconds.iter().map(|seconds| mib / seconds).collect();
    let Median { value, ci95 } = median(&samples)?;
    let middle = |samples: &[f64]| median(samples).map_or(0.0, |median| median.value);
    let block = plan.block();
    let layout = series.api.layout();
    let straggler = options.targets.as_ref().map(|targets| targets.straggler);
    let straggler = straggler.filter(|_| layout.is_some_and(Layout::has_straggler));
    let factors = straggler.map(|straggler| (0..all.len()).map(move |n| straggler.factor(n)));
    Some(ArrayRow {
        workload: workload.name(),
        api: if layout.is_some() { ArrayApi::Striate.name() } else { series.api.name() },
        layout,
        slower: factors.into_iter().flatten().collect(),
        store: options.store.clone(),
        ranks: workload.ranks(),
        collective: options.mode == CallMode::Collective,
        nonblocking: context.nonblocking
            && matches!(
                series.api,
                ArrayApi::Striate
                    | ArrayApi::StriateNetcdf4
                    | ArrayApi::Layout(_)
                    | ArrayApi::Pnetcdf(_)
            ),
        op,
        scope,
        format: series.api.file_format(options.format).to_string(),
        files: plan.files.len() as u64,
        variables: plan.files.iter().map(|file| file.schema.variables.len() as u64).sum(),
        block: (block > 0).then_some(block),
        bytes,
        median_mib_s: value,
        ci95,
        spread: layout.and_then(|_| spread(&samples)),
        samples,
        median_s: middle(&seconds),
        open_s: middle(&around),
        verified: options.verify,
        read_by: series.read_by.clone(),
        made_by: options.made_by.map(ArrayApi::name),
        chunk: plan.chunk(),
        exchange: exchange(&all),
        cost: all.last().and_then(|sample| cost(&sample.stats?, workload.ranks())),
    })
}

/// None if there are no partitions.
fn exchange(all: &[&ArraySample]) -> Option<Exchange> {
    let share = |sample: &ArraySample| Some(sample.divided?.exchange / sample.seconds(Scope::Data));
    let shares: Vec<f64> = all.iter().filter_map(|sample| share(sample)).collect();
    Some(Exchange {
        partitions: all.iter().filter_map(|sample| Some(sample.divided?.partitions)).collect(),
        bytes: all.last()?.divided?.exchanged,
        median_share: median(&shares)?.value,
        shares,
    })
}

/// Bytes of the headers of all files.
fn header_bytes(context: &EngineContext<'_>) -> u64 {
    use striate_array::Values;
    use striate_array::format::{Attribute, Dimension, Header, Variable};
    let mut bytes = 0;
    for file in &context.plan.files {
        let mut header = Header::new(context.options.format);
        for dimension in &file.schema.dimensions {
            let len = match dimension.growth {
                Growth::Fixed => dimension.len,
                Growth::Unlimited => 0,
            };
            header.dimensions.push(Dimension::classic(dimension.name.clone(), len));
        }
        for variable in &file.schema.variables {
            let texts = variable.texts.iter().map(|(name, text)| Attribute {
                name: (*name).to_owned(),
                values: Values::from(text.as_str()),
            });
            let numbers = variable.numbers.iter().map(|(name, number)| Attribute {
                name: (*name).to_owned(),
                values: Values::from(*number),
            });
            let dimensions = variable.dimensions.iter().map(|&d| d as u32).collect();
            let external = variable.number.external();
            header.variables.push(Variable {
                attributes: texts.chain(numbers).collect(),
                ..Variable::new(variable.name.clone(), external, dimensions)
            });
        }
        bytes += header.encoded_len();
    }
    bytes
}

/// The mean over the ranks; none if no data was moved.
fn cost(stats: &Stats, ranks: u64) -> Option<Cost> {
    (stats.wanted > 0).then(|| Cost::mean(stats, ranks))
}

/// Ours over the others: over the fastest parallel library with a goal, over plain system calls
/// and the compressor alone with others. PnetCDF's files have no chunks, so where there are some
/// it is compared without a goal.
fn ratios(rows: &[ArrayRow], context: &EngineContext<'_>, op: ArrayOp) -> Vec<Ratio> {
    let goals = &context.options.goals;
    let row_of = |api: ArrayApi| rows.iter().find(|row| row.api == api.name());
    let fastest = |is_one: &dyn Fn(ArrayApi) -> bool| {
        let apis = context.options.contenders.iter().filter(|api| is_one(**api));
        let rows = apis.filter_map(|api| row_of(*api));
        rows.max_by(|a, b| a.median_mib_s.total_cmp(&b.median_mib_s))
    };
    let has_chunks = context.plan.chunk().is_some();
    let is_pnetcdf = |api: ArrayApi| matches!(api, ArrayApi::Pnetcdf(_));
    let is_peer = |api: ArrayApi| api.is_parallel_peer() && !(has_chunks && is_pnetcdf(api));
    let (peer, goal) = (fastest(&is_peer), if op.makes() { goals.write } else { goals.read });
    let without_chunks = fastest(&is_pnetcdf).filter(|_| has_chunks);
    let raw = if op.makes() { goals.raw } else { goals.raw_read };
    let compressor = goals.compressor.filter(|_| op.makes());
    let others = [
        (peer, goal),
        (without_chunks, None),
        (row_of(ArrayApi::Netcdf), None),
        (row_of(ArrayApi::Raw), raw),
        (row_of(ArrayApi::DeflateAlone), compressor),
    ];
    let ours = [ArrayApi::Striate, ArrayApi::StriateNetcdf4].into_iter().filter_map(row_of);
    let ours = ours.filter(|row| row.layout.is_none());
    ours.flat_map(|ours| {
        others.into_iter().filter_map(move |(other, goal)| over(ours, other?, goal))
    })
    .collect()
}

fn over(ours: &ArrayRow, other: &ArrayRow, goal: Option<f64>) -> Option<Ratio> {
    let what = match (ours.op, ours.scope) {
        (ArrayOp::Write | ArrayOp::Read, Scope::Data) => "data alone",
        (ArrayOp::Write, Scope::Whole) => "from create to close",
        (ArrayOp::Read, Scope::Whole) => "from open to close",
        (ArrayOp::Create | ArrayOp::Open, _) => "with close",
    };
    let size = match ours.block {
        Some(_) => Bytes(ours.bytes).to_string(),
        None => format!("{} variables", ours.variables),
    };
    // "open of open" says less.
    let of = if ours.block.is_some() { ours.workload } else { "a file" };
    let name = format!(
        "{} of {}, {what}, {size}, {} {}: {} over {}",
        ours.op.name(),
        of,
        ours.ranks,
        if ours.ranks == 1 { "rank" } else { "ranks" },
        ours.api,
        other.api
    );
    Ratio::within(name, &ours.samples, &other.samples, goal)
}
