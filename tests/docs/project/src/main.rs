mod cart;
mod login;

fn main() {
    println!("{}", cart::total(&[3, 4]));
}
