struct Suite;

impl Suite {
    #[redroom::attack]
    async fn attack(self) {}
}

fn main() {}
