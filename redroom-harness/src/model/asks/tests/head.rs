//! What a request's head asks for: by its credentials, its host, and how it says that its body is to be read.

use std::io::Write as _;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::*;

fn headers(headers: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        map.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
    }
    map
}

#[test]
fn credentials_that_the_run_did_not_give_and_other_hosts_are_asks() {
    let given = Given::new(
        "192.0.2.1:81",
        ["redroom-placeholder-key".to_owned()],
        [b"{\"apiKey\":\"sk-placeholder\"}".to_vec()],
    );
    let asked = |target: &str, fields: &[(&str, &str)]| {
        let mut asks = Asks::default();
        of_head(target, [&headers(fields)], &given, &mut asks);
        asks.into_vec().into_iter().map(|ask| (ask.kind, ask.name)).collect::<Vec<_>>()
    };
    let foreign = |name: &str| vec![(AskKind::Credentials, name.to_owned())];
    let own = [
        ("host", "192.0.2.1:81"),
        ("x-api-key", "redroom-placeholder-key"),
        ("authorization", "Bearer sk-placeholder"),
        ("x-goog-api-key", ""),
        ("anthropic-beta", "token-counting-2024-11-01"),
        ("user-agent", "sk-ant-123"),
    ];
    assert_eq!(asked("/v1/messages?beta=true&key=redroom-placeholder-key", &own), []);
    for name in
        ["x-api-key", "api-key", "cookie", "proxy-authorization", "x-amz-security-token", "x-my-secret", "ocp-key"]
    {
        assert_eq!(asked("/", &[(name, "sk-ant-foreign")]), foreign(name));
    }
    assert_eq!(asked("/", &[("authorization", "Bearer sk-ant-foreign")]), foreign("authorization"));
    // The second of two counts as well, and a piece of a file is not what stands in it.
    let twice = [("x-api-key", "redroom-placeholder-key"), ("x-api-key", "sk-ant-foreign")];
    assert_eq!(asked("/", &twice), foreign("x-api-key"));
    assert_eq!(asked("/", &[("x-api-key", "api")]), foreign("x-api-key"));
    assert_eq!(asked("/v1/messages?api%5Fkey=sk-ant-foreign", &[]), foreign("?"));
    for host in ["api.example.com", "192.0.2.1", "192.0.2.1:80", ""] {
        assert_eq!(asked("/", &[("host", host)]), [(AskKind::Host, host.to_owned())]);
    }
    assert_eq!(asked("/", &[("host", "192.0.2.1:81"), ("host", "x.example")]).len(), 1);
}

#[test]
fn foreign_credentials_do_not_pass_before_a_value_that_is_known() {
    let given = Given::new("h:81", ["redroom-placeholder-key".to_owned()], []);
    let asked = |target: &str, fields: &[(&str, &str)]| {
        let mut asks = Asks::default();
        of_head(target, [&headers(fields)], &given, &mut asks);
        asks.into_vec().len()
    };
    assert_eq!(asked("/", &[("authorization", "bearer redroom-placeholder-key")]), 0);
    assert_eq!(asked("/", &[("x-api-key", "sk-ant-foreign redroom-placeholder-key")]), 1);
    assert_eq!(asked("/", &[("cookie", "session=foreign; redroom-placeholder-key")]), 1);
    assert_eq!(asked("/v1/messages?key=sk-ant-foreign+redroom-placeholder-key", &[]), 1);
}

#[test]
fn headers_that_lead_a_gateway_elsewhere_are_asks() {
    for name in ["Helicone-Target-Url", "x-portkey-custom-host", "x-forwarded-host", "X-Original-URL", "x-rewrite-url"]
    {
        let mut asks = Asks::default();
        of_head("/", [&headers(&[(name, "https://x.example/")])], &Given::default(), &mut asks);
        assert_eq!(asks.into_vec(), [Ask::new(AskKind::Host, "https://x.example/")], "{name}");
    }
}

#[test]
fn a_body_is_read_without_its_encoding_or_not_at_all() {
    let body = br#"{"a":1}"#;
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zlib = |bytes: &[u8]| {
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |bytes: &[u8]| ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest);
    let unpacked = |encoding: &str, packed: &[u8]| plain(&headers(&[("content-encoding", encoding)]), packed);
    for (encoding, packed) in
        [("gzip", gzip(body)), (" X-GZIP ", gzip(body)), ("deflate", zlib(body)), ("zstd", zstd(body))]
    {
        assert_eq!(unpacked(encoding, &packed), Ok(Some(body.to_vec())), "{encoding}");
        let behind = [&packed[..], b"{\"tools\":[1]}"].concat();
        assert!(unpacked(encoding, &behind).is_err(), "{encoding} with something behind it");
        assert!(unpacked(encoding, &packed[..packed.len() - 3]).is_err(), "{encoding} cut off");
        assert!(unpacked(encoding, body).is_err(), "{encoding} that is none");
    }
    // Two members are one file to everybody.
    assert_eq!(unpacked("gzip", &[gzip(b"{\"a\""), gzip(b":1}")].concat()), Ok(Some(body.to_vec())));
    assert_eq!(unpacked("identity", body), Ok(None));
    for encoding in ["br", "gzip, gzip", "compress", "nothing"] {
        assert!(unpacked(encoding, body).is_err(), "{encoding}");
    }
    let bomb = gzip(&vec![b' '; BODY_LIMIT + 1]);
    assert!(unpacked("gzip", &bomb).unwrap_err().contains("larger"));
    let of_type = |kind: &str| plain(&headers(&[("content-type", kind)]), body);
    for kind in ["application/json", "Application/JSON; charset=UTF-8", "application/x-www-form-urlencoded"] {
        assert_eq!(of_type(kind), Ok(None), "{kind}");
    }
    for kind in [
        "multipart/form-data; boundary=x",
        "text/plain",
        "application/json; charset=utf-16",
        "application/xml",
        "application/jsonl",
    ] {
        assert!(of_type(kind).is_err(), "{kind}");
    }
    assert!(plain(&headers(&[("content-type", "application/json"), ("content-type", "text/plain")]), body).is_err());
    assert!(plain(&headers(&[("content-encoding", "gzip"), ("content-encoding", "br")]), body).is_err());
}
