/** Loaded before a program: Node opens its debugger before the program's first line. */
process.kill(process.pid, 'SIGUSR1')
