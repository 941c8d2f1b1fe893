module phalanx

go 1.22
