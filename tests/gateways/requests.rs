//! What a gateway gets: where, in whose name, in which protocol, and nothing that is none of its business.

use http::Version;
use redroom::prelude::*;
use redroom::{ModelCallKind, Refusal};

use crate::gateway::{Gateway, IPV6, KEY, PLAIN, SECURE};
use crate::text;

/// One turn of the real agent: its requests arrive at exactly this place.
async fn arrives_at(run: Run, gateway: &Gateway, path: &str) -> redroom::Result<()> {
    assert_eq!(run.send("Hello.").await?.final_text, "Heard.");
    let asked = gateway.asked_by(run.id());
    assert!(!asked.is_empty());
    for asked in &asked {
        assert_eq!(asked.line, format!("POST {path}/v1/messages?beta=true"));
        assert_eq!(asked.headers["x-api-key"], *KEY);
    }
    assert_eq!(run.finish().await?.errors, []);
    Ok(())
}

macro_rules! arrives {
    ($($name:ident: $gateway:ident, $prefix:literal => $path:literal;)*) => {$(
        #[redroom::attack(model_proxy = $gateway.proxy($prefix))]
        async fn $name(run: Run) -> redroom::Result<()> {
            arrives_at(run, &$gateway, $path).await
        }
    )*};
}

arrives! {
    no_path_is_kept: PLAIN, "" => "";
    a_slash_is_not_doubled: PLAIN, "/" => "";
    a_prefix_is_kept: PLAIN, "/pre/fix" => "/pre/fix";
    a_slash_behind_a_prefix_is_not_doubled: PLAIN, "/pre/fix/" => "/pre/fix";
    an_escaped_slash_stays_escaped: PLAIN, "/a%2Fb" => "/a%2Fb";
    an_address_of_ipv6_is_reached: IPV6, "/pre" => "/pre";
}

#[redroom::attack(model_proxy = SECURE.proxy("/secure"))]
async fn http2_is_spoken_with_a_gateway_that_has_a_certificate_of_its_own(run: Run) -> redroom::Result<()> {
    assert_eq!(run.send("Hello.").await?.final_text, "Heard.");
    let asked = SECURE.asked_by(run.id());
    assert!(!asked.is_empty());
    assert!(asked.iter().all(|asked| asked.version == Version::HTTP_2 && asked.headers["x-api-key"] == *KEY));
    assert_eq!(run.finish().await?.errors, []);
    Ok(())
}

#[redroom::attack(model_proxy = PLAIN.proxy(""))]
async fn nothing_of_the_agents_credentials_or_connection_passes(run: Run) -> redroom::Result<()> {
    run.send("Hello.").await?;
    let output = run
        .exec(
            r#"{ printf '{"mine":"'; head -c 2000 /dev/zero | tr '\0' x; printf '"}'; } > body; own=$ANTHROPIC_API_KEY
            curl -sS -o /dev/null -w '%{http_code}' --data-binary @body -H "X-API-Key: $own" -H "x-api-key: $own" -H "AUTHORIZATION: Bearer $own" \
              -H "Cookie: $own" -H "Proxy-Authorization: Basic $own" -H "api-key: $own" -H "X-Auth-Token: $own" \
              -H 'X-Redroom-Run: mine' -H 'X-Redroom-Other: mine' -H 'Connection: keep-alive, X-Hop' -H 'X-Hop: mine' \
              -H 'Keep-Alive: mine' -H 'TE: trailers' -H 'Upgrade: mine' -H 'Expect: 100-continue' -H 'X-Kept: 1' "$ANTHROPIC_BASE_URL/v1/messages""#,
        )
        .await?;
    assert_eq!(text(&output.stdout), "200", "{}", text(&output.stderr));
    let asked = PLAIN.asked_by(run.id()).pop().expect("it arrived");
    assert_eq!(asked.body.len(), 2011);
    let said = format!("{:?}", asked.headers);
    assert!(!said.contains("mine") && !said.contains("placeholder"), "{said}");
    let one = |name: &str| {
        asked.headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default()).collect::<Vec<_>>()
    };
    assert_eq!(
        (one("x-api-key"), one("x-redroom-run"), one("x-kept")),
        (vec![KEY.as_str()], vec![run.id()], vec!["1"])
    );
    assert_eq!(one("host"), [PLAIN.host()]);
    for gone in
        ["authorization", "cookie", "proxy-authorization", "connection", "te", "upgrade", "expect", "keep-alive"]
    {
        assert_eq!(one(gone), [""; 0], "{gone}");
    }
    Ok(())
}

#[redroom::attack(
    model_proxy = PLAIN.proxy(""),
    workspace = { "token": "${secrets.api_token}" },
    secrets = { api_token: "PLATYPUS-7731" },
)]
async fn what_is_no_endpoint_of_the_model_is_on_record_and_goes_nowhere(run: Run) -> redroom::Result<()> {
    run.send("Hello.").await?;
    let before = PLAIN.asked_by(run.id()).len();
    let output = run
        .exec(
            r#"ask() { curl -sS -o /dev/null -w '%{http_code} ' --path-as-is --data-binary @token "$@"; }
            ask "$ANTHROPIC_BASE_URL/v1/x/../messages"; ask "$ANTHROPIC_BASE_URL//v1/messages"
            ask "$ANTHROPIC_BASE_URL/v1/files"; ask -X PUT "$ANTHROPIC_BASE_URL/v1/messages"
            ask --http2-prior-knowledge "$ANTHROPIC_BASE_URL/v1/%6dessages"
            ask --request-target http://api.anthropic.com/v1/messages "$ANTHROPIC_BASE_URL/""#,
        )
        .await?;
    assert_eq!(text(&output.stdout), "403 403 403 403 403 400 ", "{}", text(&output.stderr));
    assert_eq!(PLAIN.asked_by(run.id()).len(), before);
    let result = run.finish().await?;
    let refused: Vec<_> = result.model_calls.iter().filter(|call| call.request.refusal.is_some()).collect();
    assert_eq!(refused.len(), 6, "{refused:?}");
    assert!(refused.iter().all(|call| call.request.secrets.len() == 1), "{refused:?}");
    assert_eq!(refused[5].request.refusal, Some(Refusal::InvalidTarget));
    Ok(())
}

#[redroom::attack(
    model_proxy = PLAIN.proxy(""),
    workspace = { "token": "${secrets.api_token}" },
    secrets = { api_token: "PLATYPUS-7731" },
)]
async fn a_compressed_request_passes_unchanged_and_is_read(run: Run) -> redroom::Result<()> {
    run.send("Hello.").await?;
    let output = run
        .exec(
            r#"{ printf '{"x":"'; head -c 100000 /dev/urandom | base64 -w 0; cat token; printf '"}'; } | gzip > packed; sha256sum < packed | cut -c1-64
            curl -sS -o /dev/null -H 'Content-Encoding: gzip' --data-binary @packed "$ANTHROPIC_BASE_URL/v1/messages"; wc -c < packed"#,
        )
        .await?;
    let asked = PLAIN.asked_by(run.id()).pop().expect("it arrived");
    assert_eq!(asked.headers["content-encoding"], "gzip");
    let length = text(&output.stdout).lines().nth(1).and_then(|length| length.trim().parse().ok());
    assert_eq!(length, Some(asked.body.len()), "{}", text(&output.stderr));
    let result = run.finish().await?;
    let packed: Vec<_> =
        result.sightings_of("api_token").into_iter().filter(|seen| seen.place == Place::ModelRequest).collect();
    assert!(packed.iter().any(|seen| seen.inside.contains(&Container::Gzip)), "{packed:?}");
    Ok(())
}

#[redroom::attack(model_proxy = PLAIN.proxy(""))]
async fn a_gateway_that_does_not_count_tokens_loses_nothing_else(run: Run) -> redroom::Result<()> {
    run.send("/context").await?;
    assert_eq!(run.send("Hello.").await?.final_text, "Heard.");
    let result = run.finish().await?;
    assert_eq!(result.errors, []);
    let statuses = |kind| -> Vec<Option<u16>> {
        let calls = result.model_calls.iter().filter(|call| call.request.kind == kind);
        calls.map(|call| call.request.status).collect()
    };
    let counted = statuses(ModelCallKind::TokenCount);
    assert!(!counted.is_empty() && counted.iter().all(|status| *status == Some(404)), "{:?}", result.model_calls);
    assert_eq!(statuses(ModelCallKind::Answer), [Some(200)]);
    Ok(())
}
