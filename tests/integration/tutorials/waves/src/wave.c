double wave(int i);
double wave(int i) { return i % 3 - 1; }
