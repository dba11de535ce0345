//! Runs every scenario in `tests/scenarios/` of the repository.

use std::io::Write as _;
use std::path::Path;

use testkit::scenario::{self, Program};

#[test]
fn every_scenario_passes() {
    let program = Program {
        path: env!("CARGO_BIN_EXE_parallax").into(),
        version: env!("CARGO_PKG_VERSION").into(),
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/scenarios");
    match scenario::run_all(&program, &folder) {
        // Printed past the test capture, so that missing scenarios are noticed.
        Ok(count) => {
            let _ = writeln!(std::io::stderr(), "{count} scenarios");
        }
        Err(problems) => panic!("{problems}"),
    }
}
