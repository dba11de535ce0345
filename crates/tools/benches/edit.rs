//! How long it takes to find the text of an edit.

use parallax_tools::replace::{Source, find};

fn main() {
    divan::main();
}

/// A file of `lines` lines like code.
fn file(lines: usize) -> String {
    (0..lines).map(|n| format!("    let value_{n} = compute({n}, \"text {}\");\n", n * 7)).collect()
}

#[divan::bench(args = [200, 5_000, 50_000])]
fn exact(bencher: divan::Bencher, lines: usize) {
    let text = file(lines);
    let old = format!("let value_{} = compute", lines - 10);
    bencher.bench(|| find(&Source::new(&text), &old, "let x"));
}

#[divan::bench(args = [200, 5_000, 50_000])]
fn flexible(bencher: divan::Bencher, lines: usize) {
    let text = file(lines);
    let n = lines - 10;
    let old = format!("let value_{n} = compute({n}, \"text {}\");\n", n * 7);
    let old = format!("\t{old}");
    bencher.bench(|| find(&Source::new(&text), &old, "let x"));
}

#[divan::bench(args = [200, 5_000, 50_000])]
fn fuzzy(bencher: divan::Bencher, lines: usize) {
    let text = file(lines);
    let n = lines - 10;
    let old = format!("let valeu_{n} = compute({n}, \"text {}\");", n * 7);
    bencher.bench(|| find(&Source::new(&text), &old, "let x"));
}

/// Every place is nearly right.
#[divan::bench(sample_count = 5)]
fn fuzzy_with_rivals_everywhere(bencher: divan::Bencher) {
    let line = "    assert_eq!(left_side_of_it, right_side_of_it);";
    let text = format!("{line}\n").repeat(100_000);
    let old = line.replace("left", "elft").replace("right", "rihgt");
    bencher.bench(|| find(&Source::new(&text), &old, "x"));
}

/// The worst that is allowed: nothing fits, everything is alike.
#[divan::bench(sample_count = 5)]
fn fuzzy_without_a_match(bencher: divan::Bencher) {
    let text = file(20_000);
    let old = file(3).replace("compute", "something_else").replace("value", "variable");
    bencher.bench(|| find(&Source::new(&text), &old, "x"));
}
