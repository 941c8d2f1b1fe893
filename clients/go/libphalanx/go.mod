module phalanx/libphalanx

go 1.22
