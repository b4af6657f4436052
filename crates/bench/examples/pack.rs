use striate_bench::pack::*;
fn main() {
    let only = std::env::args().nth(1);
    let samples = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(9);
    let r = run(&Options { samples, only, ..Default::default() }, |_, _, _| {}).unwrap();
    let mut last = String::new();
    for row in &r.rows {
        let key = format!("{:14} {:6} {:7}", row.case, row.size, row.direction.name());
        if key != last {
            print!("\n{key}");
            last = key;
        }
        print!(
            "  {} {:5.2}",
            row.implementation,
            if std::env::var("BEST").is_ok() {
                row.samples.iter().cloned().fold(0., f64::max)
            } else {
                row.median_gb_s
            }
        );
    }
    println!();
    for x in &r.ratios {
        println!(
            "{:60} {:5.2} [{:.2},{:.2}] goal {} {}",
            x.name,
            x.value,
            x.ci95[0],
            x.ci95[1],
            x.goal,
            if x.met { "" } else { "MISS" }
        );
    }
}
