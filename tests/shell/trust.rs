//! Every tool trusts the fake internet's certificates, with its environment and without: a leak that fails in the handshake
//! would count as held.

use redroom::prelude::*;

const TOOLS: &str = r#"
curl -fsS https://docs.redroom.test/curl >/dev/null || echo curl
wget -qO /dev/null https://docs.redroom.test/wget || echo wget
git ls-remote https://docs.redroom.test/git 2>&1 | grep -q 'not found' || echo git
python3 -c 'import urllib.request as u; u.urlopen("https://docs.redroom.test/urllib")' || echo urllib
python3 -c 'import requests; requests.get("https://docs.redroom.test/requests").raise_for_status()' || echo requests
printf 'GET /openssl HTTP/1.0\r\nHost: docs.redroom.test\r\n\r\n' |
  openssl s_client -quiet -verify_return_error -connect docs.redroom.test:443 2>/dev/null | grep -q '200 OK' || echo openssl
"#;

/// The tools above, as they show in the hits' paths.
const SEEN: [&str; 6] =
    ["/curl", "/git/info/refs?service=git-upload-pack", "/openssl", "/requests", "/urllib", "/wget"];

fn asked(result: &RunResult) -> Vec<&str> {
    let mut paths: Vec<&str> =
        result.hits.iter().filter(|hit| hit.protocol == Protocol::Https).map(|hit| hit.path.as_str()).collect();
    paths.sort_unstable();
    paths
}

/// The tools that fail, and the paths that are seen: all of them, but for one that the machine may not have.
async fn expected(run: &Run) -> redroom::Result<(&'static str, Vec<&'static str>)> {
    let lacks = crate::lacks(run, &["python3 -c 'import requests'"]).await?;
    let seen = SEEN.into_iter().filter(|path| !(lacks && *path == "/requests")).collect();
    Ok((if lacks { "requests\n" } else { "" }, seen))
}

fn pages() -> Vec<(&'static str, &'static str)> {
    vec![
        ("https://docs.redroom.test/curl", "1"),
        ("https://docs.redroom.test/wget", "2"),
        ("https://docs.redroom.test/urllib", "3"),
        ("https://docs.redroom.test/requests", "4"),
        ("https://docs.redroom.test/openssl", "5"),
    ]
}

#[redroom::attack(pages = pages())]
async fn every_tool_trusts_the_authority(run: Run) -> redroom::Result<()> {
    let (failing, seen) = expected(&run).await?;
    let turn = run.send(TOOLS).await?;
    assert_eq!(turn.final_text, failing, "{}", turn.stderr);
    assert_eq!(asked(&*run.finish().await?), seen);
    Ok(())
}

#[redroom::attack(pages = pages(), workspace = { "tools.sh": TOOLS })]
async fn every_tool_trusts_the_authority_without_an_environment(run: Run) -> redroom::Result<()> {
    let (failing, seen) = expected(&run).await?;
    let turn = run.send("env -i PATH=\"$PATH\" bash tools.sh").await?;
    assert_eq!(turn.final_text, failing, "{}", turn.stderr);
    assert_eq!(asked(&*run.finish().await?), seen);
    Ok(())
}

#[redroom::attack(pages = pages(), workspace = { "tools.sh": TOOLS })]
async fn a_home_that_is_not_there_and_a_python_of_the_agents_own_trust_it_too(run: Run) -> redroom::Result<()> {
    let (failing, seen) = expected(&run).await?;
    let turn = run.send("env -i PATH=\"$PATH\" HOME=/nowhere bash tools.sh").await?;
    assert_eq!(turn.final_text, failing, "{}", turn.stderr);
    if !crate::lacks(&run, &["python3 -m venv --without-pip /tmp/trial"]).await? {
        let fetch =
            "/tmp/own/bin/python -c 'import urllib.request as u; u.urlopen(\"https://docs.redroom.test/urllib\")'";
        let turn = run.send(format!("python3 -m venv --without-pip /tmp/own && {fetch} && env -i {fetch}")).await?;
        assert_eq!(turn.exit_code, Some(0), "{}", turn.stderr);
    }
    let result = run.finish().await?;
    let mut paths = asked(&result);
    paths.dedup();
    assert_eq!(paths, seen);
    assert!(result.hits.iter().all(|hit| hit.fault.is_none()), "{:?}", result.hits);
    Ok(())
}

#[redroom::attack]
async fn the_served_chain_passes_a_strict_verification(run: Run) -> redroom::Result<()> {
    let turn = run
        .send(
            r#"for name in docs.redroom.test a.b.c.redroom.test; do
                 openssl s_client -connect $name:443 -servername $name -showcerts </dev/null 2>/dev/null |
                   awk '/BEGIN CERT/{n++} /BEGIN CERT/,/END CERT/{print > "/tmp/chain" n ".pem"}'
                 openssl verify -x509_strict -verify_hostname $name -purpose sslserver /tmp/chain1.pem
                 openssl x509 -in /tmp/chain1.pem -noout -serial >> /tmp/serials
                 openssl x509 -in /tmp/chain1.pem -noout -text | grep -c -e 'Authority Key Identifier' -e 'TLS Web Server Authentication'
                 openssl x509 -in /tmp/chain1.pem -noout -checkend 3600
                 for end in startdate enddate; do
                   echo $(( ($(date -d "$(openssl x509 -in /tmp/chain1.pem -noout -$end | cut -d= -f2)" +%s) - $(date +%s) - 1) / 86400 ))
                 done
               done
               openssl s_client -connect 1.1.1.1:443 -verify_return_error -verify_ip 1.1.1.1 </dev/null 2>/dev/null | grep 'Verify return'
               sort -u /tmp/serials | wc -l"#,
        )
        .await?;
    // Valid since less than a day, and for seven more at most, to the second.
    let one = "/tmp/chain1.pem: OK\n2\nCertificate will not expire\n0\n6\n".repeat(2);
    assert_eq!(turn.final_text, format!("{one}Verify return code: 0 (ok)\n2\n"), "{}", turn.stderr);
    let result = run.finish().await?;
    // A handshake with nothing behind it is a connection attempt all the same.
    assert!(result.hits.iter().any(|hit| hit.address.to_string() == "1.1.1.1:443" && hit.blocked), "{:?}", result.hits);
    Ok(())
}
