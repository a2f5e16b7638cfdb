#include <cmath>
#include <iostream>
#include <mpi.h>
#include <numeric>
#include <vector>
int main(int argc, char **argv) {
  MPI_Init(&argc, &argv);
  int rank, size;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const long n = 2000000;
  std::vector<double> parts;
  for (long i = rank; i < n; i += size) {
    double x = (i + 0.5) / n;
    parts.push_back(4 / (1 + x * x) / n);
  }
  double own = std::accumulate(parts.begin(), parts.end(), 0.0), pi = 0;
  MPI_Reduce(&own, &pi, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0)
    std::cout << "pi is " << std::round(pi * 1e6) / 1e6 << std::endl;
  MPI_Finalize();
}
