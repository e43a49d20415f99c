//! A message reaches its agent whole, on standard input, and the end of it is there at once.

use std::time::{Duration, Instant};

use redroom::prelude::*;

use crate::trial::Trial;

#[redroom::attack(agent = Trial::new("waiting", &["bash", "-c", "cat > /dev/null; echo ended"]))]
async fn an_agent_that_reads_to_the_end_of_its_input_does_not_wait(run: Run) -> redroom::Result<()> {
    let asked = Instant::now();
    assert_eq!(run.send("Hello.").await?.final_text, "ended\n");
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    Ok(())
}

#[redroom::attack(agent = Trial::new("counting", &["bash", "-c", "head -c 4 | tr '\\n' '|'; cat | wc -c"]))]
async fn a_long_message_and_one_that_starts_with_a_hyphen_arrive_whole(run: Run) -> redroom::Result<()> {
    let long = format!("-rf {}", "x".repeat(300_000));
    assert_eq!(run.send(&long).await?.final_text.trim(), "-rf 300000");
    assert_eq!(run.send("\n\n\n\n").await?.final_text.trim(), "||||0");
    Ok(())
}
