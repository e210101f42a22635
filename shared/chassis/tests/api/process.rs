//! Configuration that stops a start, with one line that names the variable.

use chassis::{Env, Wiring};
use contracts::Service;

fn refused(pairs: &[(&str, &str)]) -> String {
    let mut env = Env::from_pairs(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    match Wiring::from_env(Service::Order, &mut env).and_then(|_| env.refuse_misspelt()) {
        Ok(()) => "started".to_owned(),
        Err(error) => error.variable,
    }
}

#[test]
fn bad_values_are_named_by_their_variable() {
    let strong = "s".repeat(40);
    let production: Vec<(&str, &str)> = vec![
        ("APP_ENV", "production"),
        ("AUTH_JWT_SECRET", &strong),
        ("INTERNAL_TOKEN", &strong),
        ("INTERNAL_TOKENS", "payment:tttttttttttttttttttttttttttttttttttttttt"),
    ];
    assert_eq!(refused(&production), "started");
    assert_eq!(refused(&[("APP_ENV", "dev")]), "started");
    let with = |base: &[(&'static str, &'static str)], name: &'static str, value: &'static str| {
        let mut pairs = base.to_vec();
        pairs.push((name, value));
        refused(&pairs)
    };
    let dev = [("APP_ENV", "dev")];
    for (name, value) in [
        ("API_ADDR", "here"),
        ("ADMIN_ADDR", "127.0.0.1"),
        ("DRAIN_NOTICE_MS", "soon"),
        ("SHUTDOWN_TIMEOUT_MS", "-1"),
        ("INTERNAL_TOKENS", "nobody"),
        ("RULES_FILE", "/no/such/file"),
        ("API_ADDRS", "127.0.0.1:1"),
    ] {
        assert_eq!(with(&dev, name, value), name);
    }
    // Outside dev, nothing has a default that everybody knows.
    assert_eq!(refused(&[]), "AUTH_JWT_SECRET");
    assert_eq!(refused(&[("AUTH_JWT_SECRET", chassis::dev_secrets::AUTH_JWT_SECRET)]), "AUTH_JWT_SECRET");
    assert_eq!(refused(&production[..2]), "INTERNAL_TOKEN");
    assert_eq!(refused(&production[..3]), "INTERNAL_TOKENS");
}
