use super::*;

fn client() -> Client {
    Client::new(Proxies::none()).unwrap()
}

/// A client that trusts one certificate.
fn trusting(certificate: rustls::pki_types::CertificateDer<'static>) -> Client {
    client().trusting(&Authorities::from(vec![certificate])).unwrap()
}

#[tokio::test]
async fn http2_is_spoken_with_services_that_offer_it_and_strangers_are_not_trusted() {
    let (server, certificate) = loopback::Server::tls(|version| format!("{version:?}")).await;
    let trusting = trusting(certificate);
    let request = || http::Request::post(&server.url).body(full("x")).unwrap();
    let answer = trusting.send(request()).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(answer.to_bytes(), "HTTP/2.0");
    let error = client().send(request()).await.unwrap_err();
    assert!(explain(&error).contains("certificate"), "{}", explain(&error));
}

/// Collects all that is traced, however deep.
#[derive(Clone, Default)]
struct Traces(Arc<std::sync::Mutex<String>>);

impl tracing::field::Visit for Traces {
    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.0.lock().unwrap().push_str(&format!("{field}={value:?} "));
    }
}

impl tracing::Subscriber for Traces {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        span.record(&mut self.clone());
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, values: &tracing::span::Record<'_>) {
        values.record(&mut self.clone());
    }

    fn event(&self, event: &tracing::Event<'_>) {
        event.record(&mut self.clone());
    }

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn nothing_that_is_traced_on_the_way_holds_a_header_of_the_service() {
    let traces = Traces::default();
    let _collecting = tracing::subscriber::set_default(traces.clone());
    let mut headers = SecretHeaders::default();
    headers.push("x-api-key".to_owned(), "sk-traced-7731".to_owned());
    let (secure, certificate) = loopback::Server::tls(|version| format!("{version:?}")).await;
    let plain = loopback::Server::noting(|| loopback::ok("plain")).await;
    let client = trusting(certificate);
    for (url, says) in [(&secure.url, "HTTP/2.0"), (&plain.url, "plain")] {
        let mut request = http::Request::post(url).body(full("x")).unwrap();
        request.headers_mut().extend(headers.parse().unwrap());
        let answer = client.send(request).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(answer.to_bytes(), says);
    }
    let traced = traces.0.lock().unwrap();
    assert!(traced.contains("Headers"), "nothing is traced: {traced}");
    assert!(!traced.contains("sk-traced"), "{traced}");
}

#[test]
fn a_target_is_put_below_the_prefix_and_nothing_is_doubled_or_lost() {
    for (base, want) in [
        ("http://h:8", "http://h:8/v1/messages?beta=true"),
        ("http://h:8/", "http://h:8/v1/messages?beta=true"),
        ("https://h/pre/fix", "https://h/pre/fix/v1/messages?beta=true"),
        ("https://h/pre/fix/", "https://h/pre/fix/v1/messages?beta=true"),
        ("https://h/a%2Fb", "https://h/a%2Fb/v1/messages?beta=true"),
        ("http://[::1]:8080/x/", "http://[::1]:8080/x/v1/messages?beta=true"),
        ("http://h:80", "http://h/v1/messages?beta=true"),
    ] {
        let uri = Service::parse(base).unwrap().join("/v1/messages?beta=true").unwrap();
        assert_eq!(uri.to_string(), want, "{base}");
    }
}

#[test]
fn what_cannot_be_an_address_says_what_to_write() {
    for (text, says) in [
        ("gateway.example.com", "https://gateway.example.com/prefix"),
        ("ftp://h/", "only http and https"),
        ("https://me:hunter2@h/", "header"),
        ("https://h/#x", "fragment"),
    ] {
        let said = Service::parse(text).unwrap_err();
        assert!(said.contains(says), "{text}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn an_address_is_shown_without_its_query() {
    let service = Service::parse("https://h/guard?token=hunter2").unwrap();
    assert_eq!(service.to_string(), "https://h/guard");
    assert_eq!(format!("{service:?}"), "\"https://h/guard\"");
    assert_eq!(service.uri().unwrap().to_string(), "https://h/guard?token=hunter2");
}

#[test]
fn header_values_never_show() {
    let mut headers = SecretHeaders::default();
    headers.push("x-api-key".into(), "hunter2".into());
    assert_eq!(format!("{headers:?}"), "{\"x-api-key\": (redacted)}");
    assert!(!format!("{:?}", headers.parse().unwrap()).contains("hunter2"));
    headers.push("x-bad".into(), "hunter2\n".into());
    assert!(!headers.parse().unwrap_err().contains("hunter2"));
}

#[test]
fn a_value_is_a_secret_by_its_name_or_by_its_looks() {
    for (name, value, open) in [
        ("x-api-key", "2023-06-01", false),
        ("Anthropic-Version", "2023-06-01", true),
        ("anthropic-version", "sk-ant-1234", false),
        ("anthropic-beta", "context-1m-2025-08-07, interleaved-thinking-2025-05-14", true),
        ("anthropic-beta", "hunter2hunter2", false),
        ("anthropic-beta", "feature-x9K2mQ7pL4vZ-2025-08-07", false),
        ("authorization", "Bearer swordfish", false),
        ("x-provider", "anthropic", true),
        ("x-region", "eu-central-1", true),
        ("x-tenant", "550e8400-e29b-41d4-a716-446655440000", false),
        ("content-type", "application/json; charset=utf-8", true),
        ("accept", "application/sk-ant-1234", false),
        ("user-agent", "gateway/sk-ant-1234", false),
    ] {
        let mut headers = SecretHeaders::default();
        headers.push(name.into(), value.into());
        assert_eq!(headers.secrets().next().is_none(), open, "{name}: {value}");
    }
}

#[test]
fn headers_that_redroom_sets_cannot_be_given() {
    for name in ["content-length", "Transfer-Encoding", "X-Redroom-Run"] {
        let mut headers = SecretHeaders::default();
        headers.push(name.into(), "1".into());
        assert!(headers.parse().unwrap_err().contains(name));
    }
}

#[test]
fn headers_of_the_connection_go_and_so_do_those_it_names() {
    let mut headers = HeaderMap::new();
    for (name, value) in [("connection", "close, X-Private"), ("x-private", "1"), ("te", "trailers"), ("x-kept", "1")] {
        headers.insert(HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_static(value));
    }
    remove_hop_by_hop(&mut headers);
    assert_eq!(headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-kept"]);
}
