//! How fast the search is. `cargo test --release -p redroom-sidecar -- --ignored --nocapture speed`

use std::time::Instant;

use super::*;

#[test]
#[ignore = "a measurement"]
fn a_thousand_secrets_cost_as_much_as_one() {
    const SIZE: usize = 8 << 20;
    let mut state = 1_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as u32
    };
    let noise: Vec<u8> = (0..SIZE).map(|_| random() as u8).collect();
    let words =
        ["the ", "fn ", "return ", "token ", "{\n", "    ", "PLATYPUS", "path/to/file.rs ", "0x41, ", "value;\n"];
    let mut prose = String::new();
    while prose.len() < SIZE {
        prose.push_str(words[random() as usize % words.len()]);
    }
    let json = serde_json::json!({"text": prose}).to_string();
    let base64 = STANDARD.encode(&noise);
    let texts = [
        ("noise", noise.clone()),
        ("prose", prose.clone().into_bytes()),
        ("json", json.clone().into_bytes()),
        ("json in json", serde_json::json!({"text": json}).to_string().into_bytes()),
        ("base64", base64.clone().into_bytes()),
        ("wrapped base64 in json", serde_json::json!({"text": wrapped(&base64, 76, "\n")}).to_string().into_bytes()),
        ("hex", hex(&noise).into_bytes()),
        ("percent", noise.iter().map(|byte| format!("%{byte:02x}")).collect::<String>().into_bytes()),
        ("base64 in a form", base64.replace('+', "%2B").replace('/', "%2F").into_bytes()),
        ("backslashes", vec![b'\\'; SIZE]),
        ("escapes", r"+%5c\u00e9".repeat(SIZE / 10).into_bytes()),
    ];
    for (name, text) in texts {
        let mut line = format!("{name:24}");
        for count in [1, 10, 100, 1000] {
            let secrets = (0..count).map(|n| (format!("s{n}"), format!("{:08x}-PLATY-{:08x}", random(), random())));
            let set = SecretSet::new(secrets.collect::<Vec<_>>());
            let begun = Instant::now();
            assert!(set.search(&text).is_empty());
            line += &format!("{:8.1}", text.len() as f64 / 1e6 / begun.elapsed().as_secs_f64());
        }
        println!("{line}  MB/s for 1, 10, 100, 1000 secrets");
    }
}
