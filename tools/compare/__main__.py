from tools.compare.cli import main

raise SystemExit(main())
