use std::io::{Seek, SeekFrom, Write};

use parallax_files::{Access, FileError, LineRange, read_capped, read_lines};

use crate::TestWorkspace;

const RANGE: LineRange = LineRange { first: 1, last: 2000, line_characters: 2000 };

#[test]
fn huge_file_and_huge_line_use_bounded_memory() {
    let fixture = TestWorkspace::new();
    let path = fixture.write_file("work/huge", "first\nsecond\n");
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).expect("open");
    file.seek(SeekFrom::Start(300 * 1024 * 1024)).expect("seek");
    file.write_all(b"\nlast").expect("write");
    let found = fixture.workspace.resolve("huge", Access::Read).expect("allowed");
    let range = LineRange { first: 2, last: 3, ..RANGE };
    let read = read_lines(&found, range, &|| false).expect("reads");
    assert_eq!((read.first, read.last, read.total), (2, 3, 4));
    assert!(read.text.starts_with("second\n\0\0"));
    assert!(read.text.ends_with("\0... [truncated]"));
    assert!(read.text.len() < 2100 && read.snapshot.hash.is_none());
    assert!(matches!(
        read_capped(&found, 1024),
        Err(FileError::TooLarge { size: 314_572_805, .. })
    ));
}

#[test]
fn text_of_one_read_is_bounded_at_a_line_end() {
    let fixture = TestWorkspace::new();
    fixture.write_file("work/many", format!("{}\n", "x".repeat(999)).repeat(8_000));
    let found = fixture.workspace.resolve("many", Access::Read).expect("allowed");
    let range = LineRange { last: u64::MAX, ..RANGE };
    let read = read_lines(&found, range, &|| false).expect("reads");
    assert!(read.text.len() < 5_000_000 && read.is_partial());
    assert_eq!((read.last as usize * 1000 - 1, read.total), (read.text.len(), 8_000));
}

#[test]
fn read_can_be_cancelled() {
    let fixture = TestWorkspace::new();
    fixture.write_file("work/a", "x");
    let found = fixture.workspace.resolve("a", Access::Read).expect("allowed");
    assert!(matches!(read_lines(&found, RANGE, &|| true), Err(FileError::Cancelled { .. })));
}
