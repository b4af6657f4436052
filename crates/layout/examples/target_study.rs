//! The study behind the default δ: which targets are chosen among samples of known targets, for
//! several δ. Prints the tables of `docs/targets.md`; the numbers are the same in every run.
//!
//! A target has a true speed. What is measured is that, with noise. The choice is judged by the
//! true speeds: *healthy* targets are those of the best choice, *stragglers* the others, and
//! *efficiency* is what the chosen targets give together, in parts of what the best choice would
//! give.

use std::f64::consts::TAU;

use striate_layout::targets::choose;

const DELTAS: [f64; 9] = [0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.33, 0.5, 1.0];
const COUNTS: [usize; 5] = [4, 6, 12, 48, 156];
const TRIES: usize = 2000;

/// Evenly distributed numbers (splitmix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What a measurement makes of a true speed of 1.
#[derive(Clone, Copy)]
enum Noise {
    None,
    Even(f64),
    Normal(f64),
}

impl Noise {
    fn sample(self, dice: &mut Dice) -> f64 {
        match self {
            Self::None => 1.0,
            Self::Even(spread) => 1.0 + spread * (2.0 * dice.roll() - 1.0),
            Self::Normal(deviation) => {
                let radius = (-2.0 * (1.0 - dice.roll()).ln()).sqrt();
                (1.0 + deviation * radius * (TAU * dice.roll()).cos()).max(0.01)
            }
        }
    }
}

/// True speeds: 1, or less.
struct Scene {
    name: &'static str,
    noise: Noise,
    truth: fn(usize) -> Vec<f64>,
}

fn stragglers(n: usize, count: usize, factor: f64) -> Vec<f64> {
    (0..n).map(|i| if i < count.min(n - 1) { 1.0 / factor } else { 1.0 }).collect()
}

const SCENES: [Scene; 11] = [
    Scene { name: "all alike, ± 20 %", noise: Noise::Even(0.2), truth: |n| vec![1.0; n] },
    Scene { name: "all alike, σ 10 %", noise: Noise::Normal(0.1), truth: |n| vec![1.0; n] },
    Scene {
        name: "one 9 × slower, ± 20 %",
        noise: Noise::Even(0.2),
        truth: |n| stragglers(n, 1, 9.0),
    },
    Scene {
        name: "one 3 × slower, ± 20 %",
        noise: Noise::Even(0.2),
        truth: |n| stragglers(n, 1, 3.0),
    },
    Scene {
        name: "one 2 × slower, ± 10 %",
        noise: Noise::Even(0.1),
        truth: |n| stragglers(n, 1, 2.0),
    },
    Scene {
        name: "one 2 × slower, ± 20 %",
        noise: Noise::Even(0.2),
        truth: |n| stragglers(n, 1, 2.0),
    },
    Scene {
        name: "8 % are 3 × slower, σ 10 %",
        noise: Noise::Normal(0.1),
        truth: |n| stragglers(n, (n / 12).max(1), 3.0),
    },
    Scene {
        name: "half are 5 × slower, σ 10 %",
        noise: Noise::Normal(0.1),
        truth: |n| stragglers(n, n / 2, 5.0),
    },
    Scene {
        name: "half are 1.6 × slower, ± 10 %",
        noise: Noise::Even(0.1),
        truth: |n| stragglers(n, n / 2, 1.6),
    },
    Scene { name: "slow ones from 1.3 to 3 ×, ± 10 %", noise: Noise::Even(0.1), truth: graded },
    Scene {
        name: "one 3 × slower, no noise",
        noise: Noise::None,
        truth: |n| stragglers(n, 1, 3.0),
    },
];

/// A tenth of the targets, each slower than the one before.
fn graded(n: usize) -> Vec<f64> {
    let slow = n.div_ceil(10);
    let speed = |i: usize| 1.0 / (1.3 + 1.7 * (i + 1) as f64 / slow as f64);
    (0..n).map(|i| if i < slow { speed(i) } else { 1.0 }).collect()
}

/// What targets of these speeds give together.
fn together(speeds: impl Iterator<Item = f64>) -> f64 {
    let (count, slowest) =
        speeds.fold((0.0, f64::INFINITY), |(n, least), s| (n + 1.0, least.min(s)));
    if count > 0.0 { count * slowest } else { 0.0 }
}

/// The walk of \[SON\] by its letter: from the first target on, up to the first step down by more
/// than δ of the aggregate so far. Returns how many targets it keeps of a sorted list.
fn literal(sorted: &[f64], delta: f64) -> usize {
    let aggregate = |i: usize| (i + 1) as f64 * sorted[i];
    let falls = |&i: &usize| aggregate(i) < (1.0 - delta) * aggregate(i - 1);
    (1..sorted.len()).find(falls).unwrap_or(sorted.len())
}

#[derive(Default)]
struct Tally {
    healthy: f64,
    dropped: f64,
    slow: f64,
    kept: f64,
    tries: f64,
    efficiency: f64,
    worst: Option<f64>,
}

impl Tally {
    fn add(&mut self, truth: &[f64], chosen: &[usize]) {
        let count = |n: usize| n as f64;
        // By the true speeds, without noise to give way to.
        let best = choose(truth, 0.0);
        let healthy = truth.iter().filter(|&&speed| speed >= best.lower_bound).count();
        let kept = chosen.iter().filter(|&&target| best.is_chosen(target)).count();
        self.healthy += count(healthy);
        self.dropped += count(healthy - kept);
        self.slow += count(truth.len() - healthy);
        self.kept += count(chosen.len() - kept);
        let best = best.chosen_aggregate();
        let efficiency = together(chosen.iter().map(|&target| truth[target])) / best;
        self.tries += 1.0;
        self.efficiency += efficiency;
        self.worst = Some(self.worst.map_or(efficiency, |worst| worst.min(efficiency)));
    }

    fn cells(&self) -> String {
        let percent = |part: f64, of: f64| match part / of {
            _ if of == 0.0 => "–".to_owned(),
            0.0 => "0".to_owned(),
            part => format!("{:.2}", 100.0 * part),
        };
        format!(
            "{} | {} | {:.1} | {:.1}",
            percent(self.dropped, self.healthy),
            percent(self.kept, self.slow),
            100.0 * self.efficiency / self.tries,
            100.0 * self.worst.unwrap_or(0.0),
        )
    }
}

/// Judges a way to choose on samples of a scene.
fn judge(scene: &Scene, tally: &mut Tally, way: impl Fn(&[f64]) -> Vec<usize>) {
    let mut dice = Dice(42);
    for n in COUNTS {
        let truth = (scene.truth)(n);
        for _ in 0..TRIES {
            let measured: Vec<f64> =
                truth.iter().map(|speed| 100.0 * speed * scene.noise.sample(&mut dice)).collect();
            tally.add(&truth, &way(&measured));
        }
    }
}

fn literally(measured: &[f64], delta: f64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..measured.len()).collect();
    order.sort_by(|&a, &b| measured[b].total_cmp(&measured[a]));
    let sorted: Vec<f64> = order.iter().map(|&target| measured[target]).collect();
    order.truncate(literal(&sorted, delta));
    order
}

fn table(title: &str, way: impl Fn(&[f64], f64) -> Vec<usize>) {
    println!("### {title}\n");
    println!(
        "| δ | healthy dropped % | stragglers kept % | mean efficiency % | worst efficiency % |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: |");
    for delta in DELTAS {
        let mut tally = Tally::default();
        for scene in &SCENES {
            judge(scene, &mut tally, |measured| way(measured, delta));
        }
        println!("| {delta} | {} |", tally.cells());
    }
    println!();
}

/// How many samples of alike targets lose one, of all numbers of targets from 2 to 200.
fn false_alarms() {
    println!("### Samples of 2 to 200 targets, all alike, that lose a target\n");
    println!("| δ | ± 20 %: samples of 10,000 | σ 10 %: samples of 10,000 |");
    println!("| ---: | ---: | ---: |");
    for delta in DELTAS {
        let rate = |noise: Noise| {
            let mut dice = Dice(7);
            let (mut samples, mut losing) = (0.0, 0.0);
            for n in (2..=200).flat_map(|n| [n; TRIES]) {
                let measured: Vec<f64> = (0..n).map(|_| noise.sample(&mut dice)).collect();
                samples += 1.0;
                losing += f64::from(u8::from(choose(&measured, delta).cut < n));
            }
            format!("{:.2}", 1e4 * losing / samples)
        };
        println!("| {delta} | {} | {} |", rate(Noise::Even(0.2)), rate(Noise::Normal(0.1)));
    }
    println!();
}

fn main() {
    false_alarms();
    table("All distributions, walk from the peak", |measured, delta| {
        choose(measured, delta).chosen
    });
    table("All distributions, step by step from the first target", literally);
    for scene in &SCENES {
        println!("### {}\n", scene.name);
        println!(
            "| δ | healthy dropped % | stragglers kept % | mean efficiency % | worst efficiency % |"
        );
        println!("| ---: | ---: | ---: | ---: | ---: |");
        for delta in DELTAS {
            let mut tally = Tally::default();
            judge(scene, &mut tally, |measured| choose(measured, delta).chosen);
            println!("| {delta} | {} |", tally.cells());
        }
        println!();
    }
}
