"""Earlier mechanisms that ProjUnit is compared with: PrivUnit, PrivHS and SQKR. Use them for comparisons."""
