module streamsketch/reader

go 1.21
