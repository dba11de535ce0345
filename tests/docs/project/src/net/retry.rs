pub fn attempts() -> u32 {
    3
}
