// Types of the operands of norms, as norm.h names them; norm.cc sets them.
#pragma once

typedef float S;
typedef float B;
typedef float M;
typedef float V;
typedef float Y;
typedef float D;
typedef float X;
typedef float G;
typedef float H;
typedef float O;
typedef float C;
typedef float K;
typedef float R;
typedef float F;
typedef float Z;
typedef float E;
