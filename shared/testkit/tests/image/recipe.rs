//! No secret gets into an image by an instruction, or with the files that a build sees.

use crate::read;

/// The instructions of a Dockerfile, continued lines joined, comments left out.
fn instructions(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    let joined = lines.collect::<Vec<_>>().join("\n").replace("\\\n", " ");
    let of = |line: &str| line.trim().split_once(' ').map(|(name, rest)| (name.to_uppercase(), rest.trim().to_owned()));
    joined.lines().filter_map(of).collect()
}

#[test]
fn no_instruction_carries_a_secret_into_a_layer() {
    let dockerfile = read("deploy/Dockerfile");
    let instructions = instructions(&dockerfile);
    assert!(instructions.iter().filter(|(name, _)| name == "FROM").count() >= 2, "{instructions:?}");
    for (name, rest) in &instructions {
        // What a build argument or a variable says stays readable in the image's history.
        assert!(!["ARG", "ENV"].contains(&name.as_str()), "{name} {rest}");
        let rest = rest.to_lowercase();
        for word in ["secret", "token", "password", ".env", "dev-only-"] {
            assert!(!rest.contains(word), "{name} {rest}");
        }
    }
    // The last stage takes programs from the one before, and nothing from the checkout.
    let last = instructions.iter().rposition(|(name, _)| name == "FROM").unwrap();
    let copied: Vec<_> =
        instructions[last..].iter().filter(|(name, _)| ["COPY", "ADD"].contains(&name.as_str())).collect();
    assert!(!copied.is_empty() && copied.iter().all(|(_, rest)| rest.starts_with("--from=build /out/ ")), "{copied:?}");
    assert!(instructions[last..].iter().any(|(name, rest)| name == "USER" && !rest.starts_with('0')));
}

/// Whether the last pattern that matches a path leaves it out. Of the patterns' language, as much as the file uses.
fn is_left_out(patterns: &str, path: &str) -> bool {
    let mut left_out = false;
    for pattern in patterns.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (takes_back, pattern) = pattern.strip_prefix('!').map_or((false, pattern), |pattern| (true, pattern));
        if matches(pattern, path) {
            left_out = !takes_back;
        }
    }
    left_out
}

/// A pattern names a path or a folder above it; `**/` is any folder, and a `*` at the end is the rest of a name.
fn matches(pattern: &str, path: &str) -> bool {
    let names: Vec<&str> = path.split('/').collect();
    let is_name = |pattern: &str, name: &str| match pattern.strip_suffix('*') {
        Some(begin) => name.starts_with(begin),
        None => name == pattern,
    };
    match pattern.strip_prefix("**/") {
        Some(pattern) => names.iter().any(|name| is_name(pattern, name)),
        None => {
            let wanted: Vec<&str> = pattern.split('/').collect();
            names.len() >= wanted.len() && wanted.iter().zip(&names).all(|(pattern, name)| is_name(pattern, name))
        }
    }
}

#[test]
fn a_build_sees_sources_and_no_file_that_may_hold_a_secret() {
    let patterns = read(".dockerignore");
    for seen in [
        "Cargo.toml",
        "Cargo.lock",
        "services/order/src/main.rs",
        "shared/chassis/src/lib.rs",
        "migrations/order/1.sql",
    ] {
        assert!(!is_left_out(&patterns, seen), "{seen} is left out");
    }
    for hidden in [
        ".env",
        ".env.production",
        "services/order/.env",
        "shared/chassis/.env.local",
        ".git/config",
        "target/dev/8080/state.json",
        "deploy/k8s/secret.yaml",
        "id_rsa",
        "docker-compose.override.yml",
    ] {
        assert!(is_left_out(&patterns, hidden), "a build sees {hidden}");
    }
}
