pub const FLAGS: &[&str] = &["--help"];
