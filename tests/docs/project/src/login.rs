pub fn is_known(user: &str) -> bool {
    user == "demo"
}
